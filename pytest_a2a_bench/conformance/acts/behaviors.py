"""Make the agent behave as an ACTS test wants: by ACTS' prefixes if it knows them, otherwise by a scenario's prompt."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from pytest_a2a_bench.conformance.acts.assertions import Mismatch
from pytest_a2a_bench.conformance.acts.document import AskingStep, OperationStep, RawStep, Step
from pytest_a2a_bench.conformance.acts.loader import Case
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.protocol.payloads import spelled_state
from pytest_a2a_bench.conformance.protocol.streams import read_event
from pytest_a2a_bench.conformance.scenarios import SCENARIOS, Scenarios
from pytest_a2a_bench.conformance.wire.reply import WireReply

PROMPTS: Mapping[str, str] = {
    "tck-complete-task": "task",
    "tck-message-response": "message",
    "tck-long-running": "slow",
    "tck-multi-turn": "input",
    "tck-input-required": "input",
    "tck-auth-required": "auth",
    "tck-reject-task": "reject",
    "tck-task-failure": "fail",
    "tck-artifact-file": "file",
    "tck-artifact-file-url": "url",
    "tck-artifact-data": "data",
    "tck-stream-basic": "chunks",
    "tck-stream-chunked": "chunks",
}
"""Prefix of ACTS -> key of the scenario that asks for the same; no scenario stands for the other prefixes."""

_STATES = {
    "tck-long-running": ("SUBMITTED", "WORKING"),
    "tck-multi-turn": ("INPUT_REQUIRED",),
    "tck-input-required": ("INPUT_REQUIRED",),
    "tck-auth-required": ("AUTH_REQUIRED",),
    "tck-reject-task": ("REJECTED",),
    "tck-task-failure": ("FAILED",),
}
_COMPLETED = ("COMPLETED",)
_MESSAGE = "tck-message-response"
_MULTI_TURN = "tck-multi-turn"
_DONE = "done"
# All artifacts, one of them, or with [*] anything in one of them; not a member that one given artifact lacks.
_ARTIFACT = re.compile(r"(?:^|\.)artifacts(?:\[\d+\]|\[\*\].*)?$")
_NOTHING = ("nothing", "[]", "0 values")


class Prompts:
    """The texts that are sent in place of a test's own, where the agent does not know its prefixes.

    :ivar texts: text of the test -> prompt of a scenario.
    :ivar obstacle: why the test cannot be made; empty where it can.
    """

    def __init__(self, case: Case, behaviors: frozenset[str], scenarios: Scenarios) -> None:
        self.texts: dict[str, str] = {}
        self.obstacle = ""
        self._prompts: dict[str, str] = {}
        for name in case.test.requires_behaviors:
            if name in behaviors:
                continue
            key = PROMPTS.get(name, "")
            prompt = scenarios.get(key) if key else None
            if prompt is None:
                self.obstacle = self.obstacle or _unknown(name, key)
            else:
                self._prompts[name] = prompt
        if not self.obstacle:
            self._replace(case.test.steps, scenarios)

    def _replace(self, steps: Sequence[Step], scenarios: Scenarios) -> None:
        for step in steps:
            text = _text_of(step)
            if not text:
                continue
            # The longest first: one name begins another.
            names = sorted(self._prompts, key=len, reverse=True)
            if found := next((name for name in names if text.startswith(name)), ""):
                self.texts[text] = self._prompts[found]
            elif _MULTI_TURN in self._prompts and not _expects_error(step):
                answer = scenarios.get("input_answer")
                if not text.startswith(_DONE):
                    self.obstacle = f"{_unknown(_MULTI_TURN, '')}: no scenario makes an agent ask twice"
                elif answer is None:
                    self.obstacle = _unknown(_MULTI_TURN, "input_answer")
                else:
                    self.texts[text] = answer

    def check(self, step: AskingStep, reply: WireReply, ctx: Context, *, is_stream: bool) -> None:
        """Skip the test if a prompt did not bring about the task, or the message, that the prefix stands for."""
        text = "" if _expects_error(step) else _text_of(step)
        name = next((n for n in self._prompts if self.texts.get(text) == self._prompts[n] and text.startswith(n)), "")
        results = reply.events[-1:] if is_stream else [reply.result]
        if not name or not results or reply.error is not None:
            return
        event = read_event(results[0])
        state = spelled_state(event.body).removeprefix("TASK_STATE_")
        wanted = _COMPLETED if is_stream else _STATES.get(name, _COMPLETED)
        if (event.kind == "message") if name == _MESSAGE else (event.kind != "message" and state in wanted):
            return
        self._skip(ctx, name, "a message" if event.kind == "message" else f"a task that is {state or 'nothing'}")

    def check_artifacts(self, found: Sequence[Mismatch], ctx: Context) -> None:
        """Skip the test if nothing but an artifact is missing, which the prefix promises and a prompt does not."""
        if found and all(_ARTIFACT.search(one.path) and one.found.startswith(_NOTHING) for one in found):
            for name in self._prompts:
                self._skip(ctx, name, "a task without such an artifact")

    def _skip(self, ctx: Context, name: str, answer: str) -> None:
        key = PROMPTS[name]
        ctx.skip(f"the prompt of the scenario {key!r} was answered with {answer}, which is not what {name} asks for")


def _unknown(name: str, key: str) -> str:
    known = "say that the agent knows it (setting acts-behaviors)"
    prompt = f', or give a prompt: {key} = "..." in the file of --a2a-scenarios ({SCENARIOS[key]})' if key else ""
    return f"the agent is not said to know the behavior {name}: {known}{prompt}"


def _expects_error(step: Step | AskingStep) -> bool:
    return isinstance(step, AskingStep) and step.expect_error is not None


def _text_of(step: Step | AskingStep) -> str:
    """Return the first text of the message that a step sends; empty where it sends none."""
    message = None
    if isinstance(step, OperationStep) and step.a2a_operation.startswith("Send"):
        message = step.params.get("message")
    # A body that is given as text is sent as it is.
    elif isinstance(step, RawStep) and step.raw.body_raw is None and step.raw.operation.startswith("Send"):
        message = step.raw.params.get("message")
    parts = message.get("parts") if isinstance(message, Mapping) else None
    texts: Iterator[str] = (
        part["text"]
        for part in (parts if isinstance(parts, list) else [])
        if isinstance(part, Mapping) and isinstance(part.get("text"), str)
    )
    return next(texts, "")
