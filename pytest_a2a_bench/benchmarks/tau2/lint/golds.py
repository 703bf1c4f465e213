"""The rules that replay a gold: one task at a time, on databases that nobody else sees."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from jsonschema import Draft202012Validator

from pytest_a2a_bench.benchmarks.lint import LintFinding
from pytest_a2a_bench.benchmarks.tau2.lint.data import RawTask, Records, reward_basis, strings_of
from pytest_a2a_bench.benchmarks.tau2.lint.policy import Policy
from pytest_a2a_bench.benchmarks.tau2.lint.replay import Changes, Replayer, Step, take_state
from pytest_a2a_bench.redact import one_line

_ID = re.compile(r"(?:^|_)ids?$")
_PAYMENT = re.compile(r"payment(?:_method)?_id$")
_ACTIONS = "/evaluation_criteria/actions"
_SHOWN = 160


class Examiner:
    """Examines the tasks of one domain."""

    def __init__(self, replayer: Replayer, policy: Policy, environment: Any) -> None:
        self._replayer = replayer
        self._policy = policy
        self._kits = {"assistant": environment.tools, "user": environment.user_tools}
        dumps = [kit.db.model_dump() for kit in self._kits.values() if kit is not None and kit.db is not None]
        self._known = frozenset(strings_of(dumps))

    @cached_property
    def _schemas(self) -> Mapping[tuple[str, str], Draft202012Validator]:
        return {
            (requestor, name): Draft202012Validator(tool.openai_schema["function"]["parameters"])
            for requestor, kit in self._kits.items()
            if kit is not None
            for name, tool in kit.get_tools().items()
        }

    def writes(self, action: Any) -> bool:
        """Tell whether tau2 marks an action's tool as writing."""
        kit = self._kits.get(action.requestor)
        if kit is None or not kit.has_tool(action.name):
            return False
        return str(getattr(kit.tool_type(action.name), "value", "")) == "write"

    def examine(self, raw: RawTask, task: Any) -> tuple[list[LintFinding], Changes | None]:
        """Look at one task.

        :returns: what was found, and what the gold changes; None where the task cannot begin.
        """
        try:
            environment = self._replayer.begin(task)
        except Exception as error:  # whatever tau2 raises about data of somebody's own
            return [raw.find("start-raises", _told(error), "/initial_state")], None
        found: list[LintFinding] = []
        begun = self._replayer.start(task, environment)
        silence = self._holds_at_start(task, environment)
        actions = _actions(task)
        steps: list[Step] = []
        self._policy.begin()
        for action, step in self._replayer.play(environment, actions):
            if step is None:
                found += self._before(raw, len(steps), action, environment)
            else:
                steps.append(step)
        changes = Changes(begun, take_state(environment))
        found += self._errors(raw, steps)
        written = any(self.writes(step.action) for step in steps if not step.error)
        found += self._outcome(raw, task, changes.is_nothing(written=written), silence)
        found += self._texts(raw, steps)
        found += self._order(raw, task, actions, steps, changes)
        found += self._checks(raw, task, actions)
        return found, changes

    # -- before an action --

    def _before(self, raw: RawTask, number: int, action: Any, environment: Any) -> Iterator[LintFinding]:
        place = f"{_ACTIONS}/{number}"
        what = f"action {number + 1}, {action.name}"
        schema = self._schemas.get((action.requestor, action.name))
        if schema is None:
            yield raw.find("unknown-tool", f"{what}: the {action.requestor} has no such tool", place)
            return
        for error in sorted(schema.iter_errors(action.arguments), key=str):
            where = ".".join(map(str, error.absolute_path))
            yield raw.find(
                "refused-arguments", f"{what}: {f'{where}: ' if where else ''}{_short(error.message)}", place
            )
        records = Records(environment.tools.db if environment.tools is not None else None)
        for name, value in _ids(action.arguments):
            if value not in self._known and not records.contains(value):
                yield raw.find("unknown-id", f"{what}: {name} is in no record", place)
        yield from (
            raw.find("payment-not-owned", f"{what}: {reason}", place)
            for reason in _foreign_payments(records, action.arguments)
        )
        for reason in self._policy.judge(records, action.name, action.arguments, writes=self.writes(action)):
            yield raw.find("contradicts-policy", f"{what}: {reason}", place)

    # -- after the gold --

    def _errors(self, raw: RawTask, steps: Sequence[Step]) -> Iterator[LintFinding]:
        for step in steps:
            if step.error:
                kind = " (a write)" if self.writes(step.action) else ""
                found = f"action {step.number + 1}, {step.action.name}{kind}: {_short(step.error)}"
                yield raw.find("gold-raises", found, f"{_ACTIONS}/{step.number}")

    def _holds_at_start(self, task: Any, environment: Any) -> bool:
        """Tell whether every assertion about the environment holds before anybody did anything."""
        assertions = (task.evaluation_criteria.env_assertions if task.evaluation_criteria else None) or []
        return all(_holds(environment, assertion) == "" for assertion in assertions)

    def _outcome(self, raw: RawTask, task: Any, unchanged: bool, silence: bool) -> Iterator[LintFinding]:
        basis = reward_basis(raw)
        criteria = task.evaluation_criteria
        if criteria is None:
            yield raw.find("inaction-passes", "there are no evaluation criteria, so that everything passes")
            return
        if "DB" in basis and unchanged:
            yield raw.find("gold-changes-nothing", f"{_gold(criteria)}, and changes nothing in the database", _ACTIONS)
        needed = {
            "DB": not unchanged and not (criteria.actions is None and criteria.env_assertions is None),
            "ENV_ASSERTION": not silence,
            "ACTION": bool(criteria.actions),
            "COMMUNICATE": bool(criteria.communicate_info),
            "NL_ASSERTION": bool(criteria.nl_assertions),  # what a judge would say nobody knows
        }
        if not any(needed.get(part, True) for part in basis):
            parts = ", ".join(basis) or "nothing"
            yield raw.find("inaction-passes", f"the reward asks for {parts}, all of which holds if nothing is done")

    def _texts(self, raw: RawTask, steps: Sequence[Step]) -> Iterator[LintFinding]:
        if "COMMUNICATE" not in reward_basis(raw):
            return
        outputs = [step.output.lower().replace(",", "") for step in steps]
        for number, text in enumerate(raw.communicate):
            if not any(text.lower() in output for output in outputs):
                place = f"/evaluation_criteria/communicate_info/{number}"
                yield raw.find("text-not-in-outputs", f"expected text {number + 1} is in no output of the gold", place)

    def _order(
        self, raw: RawTask, task: Any, actions: Sequence[Any], steps: Sequence[Step], gold: Changes
    ) -> Iterator[LintFinding]:
        """Find two neighbouring writes that could be made the other way round, if lists were compared as sets."""
        if "DB" not in reward_basis(raw):
            return
        writes = [s.number for s in steps if not s.error and self.writes(s.action)]
        for first, second in itertools.pairwise(writes):
            swapped = list(actions)
            swapped[first], swapped[second] = swapped[second], swapped[first]
            ended, again = self._replayer.run(task, swapped)
            if sum(bool(s.error) for s in again) != sum(bool(s.error) for s in steps) or again[first].error:
                continue
            other = Changes(gold.before, ended)
            if other.records != gold.records and other.unordered == gold.unordered:
                names = f"{actions[first].name} and {actions[second].name}"
                yield raw.find(
                    "forced-order",
                    f"actions {first + 1} and {second + 1}, {names}, can be made in the other order and end in a "
                    "database that differs in the order of entries only",
                    f"{_ACTIONS}/{first}",
                )
                return

    def _checks(self, raw: RawTask, task: Any, actions: Sequence[Any]) -> Iterator[LintFinding]:
        assertions = (task.evaluation_criteria.env_assertions if task.evaluation_criteria else None) or []
        # Without an action there is no gold to go by: such a task says only what must hold at the end.
        if not assertions or not actions or "ENV_ASSERTION" not in reward_basis(raw):
            return
        environment = self._replayer.begin(task)
        for _ in self._replayer.play(environment, actions, synchronised=True):
            pass
        for number, assertion in enumerate(assertions):
            if problem := _holds(environment, assertion):
                place = f"/evaluation_criteria/env_assertions/{number}"
                yield raw.find("gold-misses-checks", f"assertion {number + 1}, {assertion.func_name}: {problem}", place)


def _holds(environment: Any, assertion: Any) -> str:
    """Return why an assertion does not hold; empty where it does."""
    try:
        met = environment.run_env_assertion(assertion, raise_assertion_error=False)
    except Exception as error:  # assertions are methods of the domain's tools, and raise what these raise
        return _told(error)
    return "" if met else "it does not hold"


def _actions(task: Any) -> list[Any]:
    return list((task.evaluation_criteria.actions if task.evaluation_criteria else None) or [])


def _gold(criteria: Any) -> str:
    number = len(criteria.actions or [])
    return f"the gold has {number} action{'' if number == 1 else 's'}" if number else "the gold has no action"


def _told(error: Exception) -> str:
    return _short(f"{type(error).__name__}: {error}")


def _short(text: str) -> str:
    return one_line(text, _SHOWN)


def _ids(arguments: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the ids among arguments, with their names."""
    if isinstance(arguments, Mapping):
        for key, value in arguments.items():
            yield from _ids(value, str(key))
    elif isinstance(arguments, list):
        for value in arguments:
            yield from _ids(value, name)
    elif isinstance(arguments, str) and _ID.search(name):
        yield name, arguments


def _foreign_payments(records: Records, arguments: Mapping[str, Any]) -> Iterator[str]:
    """Say which payment methods are not those of the user that the call is about."""
    named = [(name, value) for name, value in _ids(arguments) if _PAYMENT.search(name)]
    methods = (records.owner(arguments) or {}).get("payment_methods") if named else None
    if not isinstance(methods, Mapping):
        return
    for name, value in named:
        if value not in methods:
            yield f"{name} is none of the user's payment methods"
