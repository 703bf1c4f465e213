"""How an agent is told to behave: by the prefixes of ACTS where it is said to know them, otherwise by scenarios."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_a2a_bench.conformance.acts.asking import Answer, operation_of, params_of, sent_by
from pytest_a2a_bench.conformance.acts.assertions import Mismatch
from pytest_a2a_bench.conformance.acts.document import Step
from pytest_a2a_bench.conformance.acts.loader import Case
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.protocol.payloads import spelled_state
from pytest_a2a_bench.conformance.protocol.streams import read_event
from pytest_a2a_bench.conformance.scenarios import SCENARIOS, Scenarios

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
"""Prefix of ACTS -> key of the scenario that asks for the same; the others nobody but a test agent can do."""

_STATES = {
    "tck-complete-task": ("COMPLETED",),
    "tck-long-running": ("SUBMITTED", "WORKING"),
    "tck-multi-turn": ("INPUT_REQUIRED",),
    "tck-input-required": ("INPUT_REQUIRED",),
    "tck-auth-required": ("AUTH_REQUIRED",),
    "tck-reject-task": ("REJECTED",),
    "tck-task-failure": ("FAILED",),
}
_MESSAGE = "tck-message-response"
_MULTI_TURN = "tck-multi-turn"
_DONE = "done"
# Artifacts themselves, one of them, or of a path with [*] what is in any: not a member that an artifact lacks.
_ARTIFACT = re.compile(r"(?:^|\.)artifacts(?:\[\d+\]|\[\*\].*)?$")
_NOTHING = ("nothing", "[]", "0 values")


class Telling:
    """What is said to the agent in one test.

    :ivar texts: the test's own texts, and what is said instead.
    :ivar obstacle: why it cannot be made; empty where it can.
    """

    def __init__(self, case: Case, behaviors: frozenset[str], scenarios: Scenarios) -> None:
        self.texts: dict[str, str] = {}
        self.obstacle = ""
        self._prompts: dict[str, str] = {}
        self._case = case
        unknown = [name for name in case.test.requires_behaviors if name not in behaviors]
        for name in unknown:
            key = PROMPTS.get(name, "")
            prompt = scenarios.get(key) if key else None
            if prompt is None:
                self.obstacle = self.obstacle or _unknown(name, key)
            else:
                self._prompts[name] = prompt
        if not self.obstacle:
            self._replace(scenarios)

    def _replace(self, scenarios: Scenarios) -> None:
        # The longest first: one name begins another.
        names = sorted(self._prompts, key=len, reverse=True)
        for step, text in _said(self._case.test.steps):
            found = next((name for name in names if text.startswith(name)), "")
            if found:
                self.texts[text] = self._prompts[found]
            elif _MULTI_TURN in self._prompts and step.expect_error is None:
                answer = scenarios.get("input_answer")
                if not text.startswith(_DONE):
                    self.obstacle = f"{_unknown(_MULTI_TURN, '')}: no scenario makes an agent ask twice"
                elif answer is None:
                    self.obstacle = _unknown(_MULTI_TURN, "input_answer")
                else:
                    self.texts[text] = answer

    def check(self, step: Step, answer: Answer, ctx: Context) -> None:
        """Skip the test where a scenario's prompt did not bring about what the prefix would have."""
        text = next((text for one, text in _said([step]) if step.expect_error is None), "")
        name = next((n for n in self._prompts if self.texts.get(text) == self._prompts[n] and text.startswith(n)), "")
        results = [answer.reply.result] if answer.events is None else list(answer.reply.events[-1:])
        if not name or not results or answer.reply.error is not None:
            return
        event = read_event(results[0])
        state = spelled_state(event.body).removeprefix("TASK_STATE_")
        wanted = ("COMPLETED",) if answer.events is not None else _STATES.get(name, ("COMPLETED",))
        if (event.kind == "message") if name == _MESSAGE else (event.kind != "message" and state in wanted):
            return
        came = "a message" if event.kind == "message" else f"a task that is {state or 'nothing'}"
        self._skip(ctx, name, f"with {came}")

    def excuse(self, found: Sequence[Mismatch], ctx: Context) -> None:
        """Skip the test where an artifact is missing that the prefix promises and the scenario does not."""
        # Whatever else does not hold is the agent's doing.
        if found and all(_ARTIFACT.search(one.path) and one.found.startswith(_NOTHING) for one in found):
            for name in self._prompts:
                self._skip(ctx, name, "without such an artifact")

    def _skip(self, ctx: Context, name: str, came: str) -> None:
        key = PROMPTS[name]
        ctx.skip(f"the prompt of the scenario {key!r} was answered {came}, which is not what {name} asks for")


def _unknown(name: str, key: str) -> str:
    known = "say that the agent knows it (--a2a-acts-behaviors; a2a-bench conformance: --acts-behaviors)"
    prompt = f', or give a prompt: {key} = "..." in the a2a_scenarios file ({SCENARIOS[key]})' if key else ""
    return f"the agent is not said to know the behavior {name}: {known}{prompt}"


def _said(steps: Sequence[Step]) -> Iterator[tuple[Step, str]]:
    """Yield the first text of each message that steps send."""
    for step in steps:
        params: Any = step.params
        operation = operation_of(step.operation, step.params) if step.operation is not None else ""
        if step.raw is not None:
            # A text of its own form is sent as it is.
            operation, params = sent_by(step.raw), params_of(step.raw) if step.raw.body_raw is None else {}
        message = params.get("message") if isinstance(params, Mapping) and operation.startswith("Send") else None
        parts = message.get("parts") if isinstance(message, Mapping) else None
        for part in parts if isinstance(parts, list) else []:
            if isinstance(part, Mapping) and isinstance(part.get("text"), str):
                yield step, part["text"]
                break
