"""The variants of a check: operation, state of the task, and id that the same check is tried with as well (pure).

A check is written once, for one representative. The catalogue names what else its rule holds for: a :class:`Variant`
says what a context puts in the place of what the check asks for, and the same check judges the answer. So a rule that
is broken for failed tasks only, or for streams only, or for an id that is the beginning of another, is found.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_a2a_bench.conformance.finding import Requirement
from pytest_a2a_bench.conformance.protocol.operations import about
from pytest_a2a_bench.conformance.target import Target

STATE_PROMPTS: Mapping[str, str] = {
    "working": "slow",
    "input-required": "input",
    "auth-required": "auth",
    "completed": "task",
    "failed": "fail",
    "canceled": "slow",
    "rejected": "reject",
    "resumed": "input",
}
"""State of a task -> scenario that brings it about. No task stays submitted: a working one begins so. One that is
resumed has had the answer to its question: what is judged is the follow-up."""


def enum_of(state: str) -> str:
    """Return how 1.0 writes a state."""
    return f"TASK_STATE_{state.upper().replace('-', '_')}"


@dataclass(frozen=True, slots=True)
class Variant:
    """One further place where a rule holds; without members it is the representative that the check is written for.

    :param operation: asked in place of the one that the check asks, ``instead``; empty for that one.
    :param state: of the task that the check is about.
    :param near: how an unknown id is like a known one: its beginning (``prefix``), or the same and more (``longer``).
    :param known: id of a task of the agent, where ``near`` needs one.
    """

    operation: str = ""
    instead: str = ""
    state: str = ""
    near: str = ""
    known: str = ""

    def __str__(self) -> str:
        """Describe the variant, at the beginning of a finding."""
        near = {"prefix": "an id that is the beginning of another", "longer": "an id that begins with another"}
        of = f"a task that is {self.state}" if self.state else ""
        return ", ".join(said for said in (self.operation, of, near.get(self.near, "")) if said)

    def asked(self, operation: str, params: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
        """Return operation and parameters to ask in place of a check's own."""
        if not self.operation or operation != self.instead:
            return operation, params
        return self.operation, _params(self.operation, params)

    def unknown(self, known: str) -> str:
        """Return an id that is like a known one, and unknown."""
        return known[:-1] if self.near == "prefix" else f"{known}0"


REPRESENTATIVE = Variant()


def _params(operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Write the parameters of another operation about the same task."""
    # Between the two ways of sending nothing changes, not even what is wrong with a message.
    if operation.startswith("Send") and "id" not in params:
        return dict(params)
    found = params.get("message")
    message = found if isinstance(found, Mapping) else {}
    # No agent knows that id: what is let in by mistake changes nothing.
    task = params.get("id") or message.get("taskId") or str(uuid.uuid4())
    return {**({"tenant": params["tenant"]} if "tenant" in params else {}), **about(operation, str(task))}


def variants(entry: Requirement) -> Iterator[Variant]:
    """Yield every variant of a requirement's check, its representative left out."""
    vary = entry.vary
    for state in vary.states:
        for operation in vary.operations:
            for near in vary.near:
                if state or operation or near:
                    yield Variant(operation, vary.instead if operation else "", state, near)


def is_possible(variant: Variant, target: Target) -> bool:
    """Return whether an interface has the operation and the capability of a variant, and a prompt for its state."""
    prompt = STATE_PROMPTS.get(variant.state, "")
    is_offered = not variant.operation or target.offers(variant.operation)
    return is_offered and (not prompt or target.scenarios.get(prompt) is not None)


def allowed(entry: Requirement, target: Target) -> list[Variant]:
    """Return the variants of a requirement's check that are tried on an interface, as its ``breadth`` says."""
    every = target.breadth == "full"
    wanted = (v for v in variants(entry) if every or {v.operation, v.state, v.near} <= {"", *entry.vary.always})
    return [variant for variant in wanted if is_possible(variant, target)]
