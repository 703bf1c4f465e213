"""How far an assessment is, in numbers and in one line (pure)."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_a2a_bench.model import TrialResult
from pytest_a2a_bench.model.metrics import add_known


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an assessment is.

    :param what: what is counted: ``trials`` or ``checks``.
    :param errors: how many could not be evaluated.
    :param cost: dollars so far, as far as anybody told.
    :param failures: how trials failed so far -> how many.
    """

    what: str = "trials"
    total: int = 0
    done: int = 0
    passed: int = 0
    errors: int = 0
    cost: float | None = None
    failures: Mapping[str, int] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Return it in one line."""
        said = f"{self.done} of {self.total} {self.what} done, {self.passed} passed"
        if self.errors:
            said += f", {self.errors} could not be evaluated"
        return said + (f", ${self.cost:.4f}" if self.cost else "")

    def after(self, result: TrialResult) -> Progress:
        """Return how far it is with one more trial, unless that was not held."""
        if result.status == "not_run":
            return self
        failure = failure_of(result)
        return dataclasses.replace(
            self,
            done=self.done + 1,
            passed=self.passed + result.success,
            errors=self.errors + (result.status != "evaluated"),
            cost=add_known(self.cost, result.cost),
            failures=Counter(self.failures) + Counter([failure] if failure else []),
        )


def failure_of(result: TrialResult) -> str:
    """Return how a trial ended that was evaluated and did not succeed: what anybody may know. Empty for others."""
    if result.status != "evaluated" or result.success:
        return ""
    reason = result.termination_reason or "unknown"
    return f"{reason} ({result.category})" if result.category else reason
