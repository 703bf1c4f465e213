"""Each door advises with names that its users have, whichever message it passes on."""

import ast
import functools
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from one_test import in_one_test

import pytest_a2a_bench
from pytest_a2a_bench.adk.options import VARIABLES
from pytest_a2a_bench.adk.runs import Tools
from pytest_a2a_bench.assessor.request import MEMBERS
from pytest_a2a_bench.cli.main import make_parser
from pytest_a2a_bench.cli.tau2 import _NAMES
from pytest_a2a_bench.config import load

PACKAGE = Path(pytest_a2a_bench.__file__).parent
OF_CLIENT = ("a2a", "dialects")
SHARED = ("benchmarks", "model", "tool_door", "trials")
"""The rooms whose messages reach every door, as those of the client do."""


def literals(room: str) -> Iterator[str]:
    """Yield the texts in a room's code that name an option of pytest, without docstrings."""
    for path in sorted((PACKAGE / room).rglob("*.py")):
        code = path.read_text(encoding="utf-8")
        tree = ast.parse(code if "--a2a-" in code else "")
        kept = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        inner = {id(v) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for v in node.values}
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                text = "".join(str(v.value) if isinstance(v, ast.Constant) else "X" for v in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in kept | inner:
                text = node.value
            else:
                continue
            if "--a2a-" in text and text != "--a2a-":
                yield text


@functools.cache
def of_agent() -> list[str]:
    return sorted({text for room in OF_CLIENT for text in literals(room)})


@functools.cache
def messages() -> list[str]:
    return sorted({*of_agent(), *(text for room in SHARED for text in literals(room))})


def test_there_are_messages() -> None:
    assert any("--a2a-timeout" in text for text in messages())
    assert len(messages()) > 50


@in_one_test("text", messages)
def test_a_caller_of_an_assessor_reads_members_of_the_request(text: str) -> None:
    message = load.REQUEST.words(text)
    assert "--a2a-" not in message
    assert set(re.findall(r"the request's (\w+)", message)) <= set(MEMBERS)
    assert set(re.findall(r"the assessor's (--[\w-]+)", message)) <= set(make_parser("assess").options)
    read = (PACKAGE / "cli/assess.py").read_text(encoding="utf-8")
    assert all(name in read for name in re.findall(r"the assessor's setting ([\w-]+)", message))


@in_one_test("text", messages)
def test_messages_of_the_adk_agent_name_arguments_and_variables(text: str) -> None:
    message = load.ADK.words(text)
    assert "--a2a-" not in message
    assert set(re.findall(r"A2A_ADK_\w+", message)) <= {variable.name for variable in VARIABLES}
    arguments = inspect.signature(Tools.run_evaluation).parameters
    assert set(re.findall(r"(\w+) of run_evaluation", message)) <= set(arguments)


@in_one_test("text", of_agent)
def test_messages_of_the_tau2_command_name_its_options(text: str) -> None:
    options = make_parser("tau2").options
    for role in ("agent", "user"):
        message = load.of_tau2(f"--{role}-a2a-", _NAMES).words(text)
        assert not re.search(r"(?<!agent)(?<!user)-{1,2}a2a-", message), message
        assert set(re.findall(r"--(?:agent|user)-a2a-[a-z-]*[a-z]", message)) <= {*options, f"--{role}-a2a-set"}, (
            message
        )
    assert "--a2a-" not in load.SCRIPT.words(text)


@pytest.mark.parametrize("command", ["check", "doctor", "assess", "init"])
def test_a_command_has_the_options_that_it_names(command: str) -> None:
    options = make_parser(command).options
    for text in of_agent():
        message = load.of_command(options).words(text)
        assert "--a2a-" not in message, message
        assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", message)) <= set(options), message


def test_advice_in_brackets_that_nobody_can_follow_is_left_out() -> None:
    text = "is it running? (--a2a-wait SECONDS waits for it)"
    assert load.ADK.words(text) == "is it running?"
    assert load.REQUEST.words(text) == "is it running? (the request's wait SECONDS waits for it)"


@pytest.mark.parametrize(
    ("door", "message"),
    [
        (load.REQUEST, "raise the request's timeout, the request's wait SECONDS, ca (no setting of an assessor) F"),
        (load.ADK, "raise A2A_ADK_TIMEOUT, wait (no setting of this agent) SECONDS, ca (no setting of this agent) F"),
        (load.SCRIPT, "raise timeout, wait=SECONDS, ca=F"),
        (load.of_tau2("--user-a2a-", _NAMES), "raise --user-a2a-timeout, --user-a2a-set wait=SECONDS, --user-a2a-ca F"),
    ],
)
def test_the_same_advice_in_the_words_of_a_door(door: load.Door, message: str) -> None:
    assert door.words("raise --a2a-timeout, --a2a-wait SECONDS, --a2a-ca F") == message
