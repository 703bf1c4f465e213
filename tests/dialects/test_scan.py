"""Finding calls in text: what is a call, what is prose, what is neither, and at what cost."""

import gc
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from examples import some
from one_test import in_one_test

from pytest_a2a_bench.dialects.calls import Reading
from pytest_a2a_bench.dialects.scan import RAW_LIMIT, Scan, scan_text
from pytest_a2a_bench.dialects.serialization import BROKEN, MAX_TEXT, find_blocks, parse_json, read_literal
from pytest_a2a_bench.model import ToolCall
from pytest_a2a_bench.model.messages import MAX_DEPTH

KNOWN = frozenset({"get_user", "book"})
CALL = '{"name": "get_user", "arguments": {"id": "u1"}}'
WANTED = ToolCall("get_user", {"id": "u1"})


def readings(scan: Scan) -> tuple[Reading, ...]:
    return tuple(found.reading for found in scan.found)


def prose(scan: Scan) -> str:
    return scan.without(scan.found)


def calls_in(text: str) -> list[ToolCall]:
    return [c for r in readings(scan_text(text, KNOWN)) for c in r.calls]


@in_one_test(
    "text",
    [
        f"```\n{CALL}\n```",
        f"<tool_call>\n{CALL}\n</tool_call>",
        f"<function_call>{CALL}</function_call>",
        f'{{"tool_calls": {CALL}}}',
        f'{{"function_call": {CALL}}}',
        f'{{"action": {CALL}}}',
        f'{{"thought": "look him up", "tool_call": {CALL}}}',
        '{"name": "get_user", "arguments": "{\\"id\\": \\"u1\\"}"}',
        '{"name": "get_user", "kwargs": {"id": "u1"}}',
        '{"name": "get_user", "parameters": {"id": "u1"}}',
        '{"tool": "get_user", "args": {"id": "u1"}}',
        '{"function": {"name": "get_user", "arguments": "{\\"id\\": \\"u1\\"}"}, "type": "function"}',
        '{"role": "assistant", "content": null, "tool_calls": [{"type": "function", '
        '"function": {"name": "get_user", "arguments": "{\\"id\\": \\"u1\\"}"}}]}',
        '{"tool_call": {"name": "get_user", "arguments": {"id": "u1"}}',
        f'He said "wait {{". {CALL}',
        f"{{ see below: {CALL} }}",
    ],
)
def test_a_call_is_found_however_it_is_written(text: str) -> None:
    scan = scan_text(text, KNOWN)
    assert [c for r in readings(scan) for c in r.calls] == [WANTED]
    assert scan.unreadable == ()


@in_one_test(
    ("written", "value"),
    [
        ("""{'t': "it's"}""", {"t": "it's"}),
        ("""{'t': 'a "b" {c'}""", {"t": 'a "b" {c'}),
        (r"""{'t': 'it\'s'}""", {"t": "it's"}),
        ("{'a': True, 'b': False, 'c': None, 'd': [1, 2.5,]}", {"a": True, "b": False, "c": None, "d": [1, 2.5]}),
        ('{"t": "True, ]"}', {"t": "True, ]"}),
        ('{"t": "two\nlines"}', {"t": "two\nlines"}),
        # Halves of surrogate pairs are replaced.
        (r'{"\ud800": ["\udfff", "\ud83d\ude00"]}', {"\ufffd": ["\ufffd", "\U0001f600"]}),
    ],
)
def test_python_spelling_is_read_as_json(written: str, value: Any) -> None:
    assert parse_json(written) == value


@in_one_test("text", ["NaN", "[Infinity]", "1e999", "9" * 5000, "{1: 2}", "{'a'}", "[" * 5000])
def test_values_outside_of_json_are_refused(text: str) -> None:
    assert parse_json(text) is BROKEN


@in_one_test(
    "text",
    [
        "Use {braces} or [brackets], don't {mix ] them.",
        'Your booking: {"id": "R1", "total": 3}',
        'Your booking: {"name": "Ann", "total": 3}',
        "{}",
        '{"tool_calls": []}',
        '{"tool_call": null}',
        'A tool: {"name": "get_user", "description": "Find", "parameters": {"type": "object"}}',
        "if (x) { y = [1 }",
        "",
    ],
)
def test_prose_stays_prose(text: str) -> None:
    scan = scan_text(text, KNOWN)
    assert (readings(scan), scan.unreadable, prose(scan)) == ((), (), text)


@in_one_test(
    "text",
    [
        '{"tool_call": {"name": "get_user", "arguments": {"id": ',
        '{"tool_call": "get_user"}',
        '{"tool_call": {"arguments": {}}}',
        '{"name": "get_user", "arguments": ["u1"]}',
        '{"name": "get_user", "arguments": "not json"}',
        '{"name": 7, "arguments": {}}',
        '{"name": "get_user", "user": "u1"}',
        '{"get_user": {"id": "u1"}}',
        '{name: "get_user", arguments: {id: u1}}',
        "<tool_call>get_user(id=u1)</tool_call>",
        '{"name": "get_user", "arguments": {"n": NaN}}',
        '{"tool_call": {"name": "<tool>", "arguments": {...}}}',
    ],
)
def test_a_call_that_cannot_be_read_is_reported(text: str) -> None:
    scan = scan_text(f"Sure. {text}", KNOWN)
    assert readings(scan) == ()
    assert len(scan.unreadable) == 1
    assert scan.unreadable[0] in text or text.startswith(scan.unreadable[0])


def test_one_bad_call_does_not_take_the_others_with_it() -> None:
    scan = scan_text(f'{{"tool_calls": [{CALL}, {{"name": "book", "arguments": {{bad}}}}]}}', KNOWN)
    assert [c for r in readings(scan) for c in r.calls] == [WANTED]
    assert scan.unreadable == ('{"name": "book", "arguments": {bad}}',)
    scan = scan_text(f'{{"tool_calls": [{CALL}, {{"arguments": {{}}}}]}}', KNOWN)
    assert [c for r in readings(scan) for c in r.calls] == [WANTED]
    assert len(scan.unreadable) == 1


def test_a_name_may_be_anything_but_a_name() -> None:
    assert calls_in('[TOOL_CALLS][{"name": {"a": [1]}}]') == []
    assert calls_in('[TOOL_CALLS][{"name": ["a"]}, {"name": 7}]') == []


def test_the_stored_text_of_an_unreadable_call_is_bounded() -> None:
    (raw,) = scan_text('{"tool_call": {"name": "x", "arguments": {"a": "' + "y" * 50_000, KNOWN).unreadable
    assert len(raw) == RAW_LIMIT


@in_one_test("depth", [MAX_DEPTH - 2, MAX_DEPTH + 50, 100_000])
def test_nesting_is_read_up_to_a_limit_and_reported_beyond(depth: int) -> None:
    text = '{"name": "book", "arguments": {"a": ' + "[" * (depth - 2) + "]" * (depth - 2) + "}}"
    scan = scan_text(text, KNOWN)
    assert bool(readings(scan)) is (depth <= MAX_DEPTH)
    assert bool(scan.unreadable) is (depth > MAX_DEPTH)


LONG = 250_000
HOSTILE = {
    "open": "{" * LONG,
    "open pairs": '{"a":' * (LONG // 5),
    "open list": "[" * LONG,
    "closed inside open": "{" * 60 + "{}" * (LONG // 2),
    "broken pairs": "{x}" * (LONG // 3),
    "escaped quotes": "{" + '\\"' * (LONG // 2),
    "quotes": '{"' * (LONG // 2),
    "single quotes": "{'" * (LONG // 2),
    "single escaped": "{" + "'\\" * (LONG // 2) + "}",
    "double escaped": '{"a"' + "\\'" * (LONG // 2) + "}",
    "tags": "<json>" * (LONG // 6),
    "closed tags": "<json></json>" * (LONG // 13),
    "fences": "```" * (LONG // 3),
    "commas": "{" + ", " * (LONG // 2) + "}",
    "keys": '{"name" ' * (LONG // 8),
    "calls": CALL * (LONG // len(CALL)),
    "spaces": "{" + " " * LONG,
    "function tags": "<function=get_user>" * (LONG // 19),
    "function calls": "<function=book>{}</function>" * (LONG // 28),
    "parameters": "<function=book><parameter=a>" * (LONG // 28),
    "one parameter's end": "<function=book><parameter=a>" * (LONG // 28) + "</parameter>",
    "invokes": '<invoke name="book"><parameter name="a">' * (LONG // 40),
    "Python": "book(" * (LONG // 5),
    "Python lines": 'get_user(id="u1")\n' * (LONG // 18),
    "Python on one line": 'get_user(id="u1"), ' * (LONG // 19),
    "Python in sentences": 'do get_user(id="u1") or ' * (LONG // 24),
    "Python strings": "book(a=\"book(b='" * (LONG // 16),
    "Python arguments": 'book(a="x", book(b=' * (LONG // 19),
    "Python lists": "book(a=[" * (LONG // 8),
    "Python in fences": "```\nbook()\n" * (LONG // 11),
    "ReAct": "Action: book\nAction Input: x\nObservation: y\n" * (LONG // 45),
    "ReAct thoughts": "Thought: a\n" * (LONG // 11),
    "harmony": "<|channel|>final<|message|>x" * (LONG // 28),
    "harmony thoughts": "<|channel|>analysis<|message|>" * (LONG // 30),
    "harmony calls": "<|channel|>commentary to=functions.book<|message|>{}" * (LONG // 52),
    "Mistral": "[TOOL_CALLS]book{}" * (LONG // 18),
    "DeepSeek": "<|tool_call_begin|>book" * (LONG // 23),
    "thoughts": "<think>" * (LONG // 7),
    "ends of thoughts": "</think>" * (LONG // 8),
    "thoughts and calls": f"<think>{CALL}</think>" * (LONG // (15 + len(CALL))),
    "quoted calls": f'"{CALL}"' * (LONG // (2 + len(CALL))),
    "fenced calls": f"```\n{CALL}\n```" * (LONG // (8 + len(CALL))),
    "questions": "?" * LONG,
    "conditions": "if you " * (LONG // 7),
    "wide": "{" + ",".join(f'"{i}":{{x}}' for i in range(LONG // 12)) + "}",
}


@in_one_test("name", some(HOSTILE, 20))
def test_hostile_text_costs_linear_time(name: str) -> None:
    text = HOSTILE[name]
    part = min(cpu_seconds(text[: len(text) // 8]) for _ in range(3))
    # Eight times the text; a quadratic scan would take sixty-four times as long. Below 20 ms the clock says little.
    assert cpu_seconds(text) < 24 * max(part, 0.02)


def cpu_seconds(text: str) -> float:
    """What scanning a text costs, whatever else the machine is busy with."""
    # What the collector costs grows with all that other tests left in this process.
    gc.disable()
    try:
        started = time.process_time()
        scan_text(text, KNOWN)
        return time.process_time() - started
    finally:
        gc.enable()


def test_opening_tags_that_nothing_closes_are_counted() -> None:
    """Each is looked for to the end of the text, so that more of them would take quadratic time."""
    shapes = [readings(scan_text("<tool_call>" * n + f"<json>{CALL}</json>", KNOWN))[0].shape for n in (99, 100)]
    assert shapes == ["tagged", "bare"]


@pytest.mark.slow
def test_a_search_that_is_given_up_says_so() -> None:
    blocks = list(find_blocks("{x}" * 5_000))
    assert blocks[-1].exhausted
    assert scan_text("{x}" * 5_000, KNOWN).unreadable == ()
    for filler in ("{x}" * 5_000, "x" * MAX_TEXT):
        scan = scan_text(filler + CALL, KNOWN)
        assert readings(scan) == ()
        assert len(scan.unreadable) == 1


# Python's syntax, parsed in threads.


@pytest.fixture
def switching() -> Iterator[None]:
    """Let threads switch while a tree is built: where the garbage collector calls Python code."""

    def collected(*_: object) -> None:
        sum(range(50))

    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(10)
    gc.callbacks.append(collected)
    yield
    gc.callbacks.remove(collected)
    gc.set_threshold(*threshold)
    sys.setswitchinterval(interval)


@pytest.mark.slow
@pytest.mark.usefixtures("switching")
def test_threads_do_not_disturb_each_other() -> None:
    texts = ["[" * 60 + str([{"Id": n, "Name": "x"}] * 300) + "]" * 60 for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(read_literal, texts * 30))
    assert str(found[3]) == texts[3]


@in_one_test("text", ["", "[1", "f(1)", "x"])
def test_an_invalid_literal_is_refused(text: str) -> None:
    with pytest.raises((SyntaxError, ValueError)):
        read_literal(text)
