"""How many trials the benchmark's own implementation confirms, in numbers and in words. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pytest_a2a_bench.model import TrialResult
from pytest_a2a_bench.redact import one_line
from pytest_a2a_bench.results.stats import count

_TRIALS = 10
"""Trials whose differences are shown; the files have all."""

_REASON = 200


@dataclass(frozen=True, slots=True)
class Tally:
    """What verifying trials came to.

    :param verified: how many are confirmed.
    :param differ: those in which anything differs.
    :param failed: those of which nobody knows, because what verifies failed.
    :param missing: how many finished trials were not verified at all: the run stopped before, or their files are gone.
    :param not_verifiable: reason -> how many trials of which the benchmark's own says nothing.
    :param by: what they were held against.
    """

    verified: int = 0
    differ: tuple[TrialResult, ...] = ()
    failed: tuple[TrialResult, ...] = ()
    missing: int = 0
    not_verifiable: tuple[tuple[str, int], ...] = ()
    by: tuple[str, ...] = ()

    @classmethod
    def of(cls, results: Iterable[TrialResult]) -> Tally:
        """Count the finished trials."""
        every = [(r, r.verification) for r in results if r.is_finished]
        known = [(r, v) for r, v in every if v is not None]
        reasons = Counter(v.reason for _, v in known if v.status == "not_verifiable")
        return cls(
            verified=sum(v.status == "verified" for _, v in known),
            differ=tuple(r for r, v in known if v.status == "differs"),
            failed=tuple(r for r, v in known if v.status == "failed"),
            missing=len(every) - len(known),
            not_verifiable=tuple(reasons.most_common()),
            by=tuple(dict.fromkeys(v.by for _, v in known if v.by)),
        )

    @property
    def verifiable(self) -> int:
        """How many trials should be confirmed."""
        return self.verified + len(self.differ) + len(self.failed) + self.missing

    @property
    def finished(self) -> int:
        """How many trials there are."""
        return self.verifiable + sum(many for _, many in self.not_verifiable)

    @property
    def confirms(self) -> bool:
        """Whether every trial is confirmed that can be, and any is."""
        return 0 < self.verified == self.verifiable

    @property
    def numbers(self) -> dict[str, int]:
        """The counts, as JSON."""
        return {
            "verified": self.verified,
            "verifiable": self.verifiable,
            "differ": len(self.differ),
            "failed": len(self.failed),
            "missing": self.missing,
            "not_verifiable": self.finished - self.verifiable,
        }

    @property
    def sentence(self) -> str:
        """The counts in words."""
        by = f" by the stock {' and '.join(self.by)}" if self.by else ""
        said = [f"verified {self.verified} of {self.verifiable}{by}"]
        differ = "differs" if len(self.differ) == 1 else "differ"
        for trials, what in ((self.differ, differ), (self.failed, "could not be verified")):
            if trials:
                said.append(f"{len(trials)} {what}: {_some(trials)}")
        if self.missing:
            said.append(f"{self.missing} not verified")
        if self.not_verifiable:
            why = ", ".join(f"{many}x {one_line(reason, _REASON)}" for reason, many in self.not_verifiable)
            said.append(f"{self.finished - self.verifiable} not verifiable: {why}")
        return "; ".join(said)

    def details(self) -> Iterator[str]:
        """Yield what differs, with both sides, and why trials could not be verified."""
        for result in (*self.differ, *self.failed)[:_TRIALS]:
            found = result.verification
            assert found is not None
            yield f"{result.key}:"
            yield from (f"  {line}" for line in (*found.differences, *filter(None, [found.reason])))
        more = len(self.differ) + len(self.failed) - _TRIALS
        if more > 0:
            yield f"... and {count(more, 'trial')} more"


def _some(trials: tuple[TrialResult, ...]) -> str:
    return ", ".join(one_line(str(r.key), 80) for r in trials[:3]) + (", ..." if len(trials) > 3 else "")
