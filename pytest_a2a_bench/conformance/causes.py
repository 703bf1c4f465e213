"""One cause, one row: what several checks found for the same reason is told once, with the others beneath it (pure).

The first of a group, the worst one, is the cause: it names what it explains. The others become ``explained`` and count
nowhere. What a waiver is for stands alone: a defect must not disappear behind the waiver of another check. By what one
sees that they have a reason in common, :mod:`.signs` knows.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from pytest_a2a_bench.conformance.finding import ACTS, FOUND, CheckResult, Exchange
from pytest_a2a_bench.conformance.signs import SIGNS, WORDS, Key, is_cause, leads, weighty

_CALL_ID = re.compile(r'"id": ?(?:\d+|"[^"]*"), ?(?="method")')
_LOWER = frozenset({("SHOULD", "MUST"), ("MAY", "MUST"), ("MAY", "SHOULD")})


def fold(
    results: Iterable[CheckResult], stands_alone: Callable[[CheckResult], bool] = lambda result: False
) -> list[CheckResult]:
    """Return the results with consequences folded beneath their causes, in the order in which they came.

    :param stands_alone: tells which results may neither be a cause nor be explained, such as waived ones.
    """
    every = list(results)
    for key_of in SIGNS:
        groups: dict[tuple[bool, Key], list[int]] = {}
        for number, result in enumerate(every):
            if result.outcome in FOUND and not stands_alone(result) and (key := key_of(result)):
                # What others' tests say neither hides nor worsens what ours do.
                groups.setdefault((result.requirement.group == ACTS, key), []).append(number)
        for (_, key), numbers in groups.items():
            if len(numbers) > 1 and is_cause(key, [every[n] for n in numbers]):
                _fold_group(every, key, numbers)
    _fold_differences(every, stands_alone)
    by_name = {result.name: result for result in every}
    shown = [_confirmed(_with_last_cause(result, by_name), by_name, stands_alone) for result in every]
    # Those have no findings of their own: they were never made.
    unmade = Counter(result.cause for result in shown if result.cause and not result.findings)
    return [_with_unmade(result, unmade[result.name]) for result in shown]


def _confirmed(
    result: CheckResult, by_name: Mapping[str, CheckResult], stands_alone: Callable[[CheckResult], bool]
) -> CheckResult:
    """Return what a check comes to that was not made because of a cause which its own check did not find."""
    if result.outcome != "explained" or result.findings:
        return result
    cause = by_name.get(result.cause)
    if cause is None or (cause.outcome in FOUND and not stands_alone(cause)):
        return result
    if cause.outcome in FOUND:  # it is waived, and what could not be judged for it is as little a defect
        return dataclasses.replace(result, outcome="skipped", cause="")
    reason = f"{result.reason}; but {cause.requirement.id} {cause.outcome}, so that this was not judged"
    return dataclasses.replace(result, outcome="error", reason=reason, cause="")


def _fold_group(every: list[CheckResult], key: Key, numbers: list[int]) -> None:
    # The cause itself first, and of several the worst.
    # A MUST stands before what only should be: the verdict goes by what is told.
    order = {n: (not leads(key, every[n]), every[n].requirement.level != "MUST") for n in numbers}
    first, *others = sorted(numbers, key=lambda n: (*order[n], FOUND.index(every[n].outcome), n))
    worst = min((every[n].outcome for n in numbers), key=FOUND.index)
    cause = every[first]
    head, *rest = cause.findings
    if key[0] in WORDS:
        # In front: what it is a case of is said before what came.
        head = dataclasses.replace(head, found=f"{WORDS[key[0]]}: {head.found}")
    lines = [line for n in sorted(others) for line in (line_of(every[n]), *every[n].explains)]
    # A cause is as bad as the worst that it explains: a MUST must not hide behind a SHOULD.
    every[first] = dataclasses.replace(cause, outcome=worst, findings=(head, *rest), explains=(*cause.explains, *lines))
    for number in others:
        reason = f"explained by {cause.requirement.id} [{cause.binding}]"
        every[number] = dataclasses.replace(every[number], outcome="explained", reason=reason, cause=cause.name)


def _fold_differences(every: list[CheckResult], stands_alone: Callable[[CheckResult], bool]) -> None:
    """Fold a difference between two bindings under the finding about one of them: the very request that differs."""
    judged = (r for r in every if r.outcome in (*FOUND, "explained") and r.requirement.group != ACTS)
    found = [r for r in judged if r.findings and not stands_alone(r)]
    about = {_request(f.exchanges[-1]): r.name for r in found if not _differs(r) for f in weighty(r) if f.exchanges}
    places = {result.name: number for number, result in enumerate(every)}
    for result in found:
        causes = [next((about[r] for e in f.exchanges if (r := _request(e)) in about), "") for f in weighty(result)]
        if not _differs(result) or result.outcome == "explained" or not causes or not all(causes):
            continue
        cause = every[places[causes[0]]]
        while cause.cause in places:
            cause = every[places[cause.cause]]
        # It may lead those that were found in its words; and no MUST disappears behind what only should be.
        if cause.name == result.name or (cause.requirement.level, result.requirement.level) in _LOWER:
            continue
        worst = min(cause.outcome, result.outcome, key=FOUND.index)
        told = (*cause.explains, line_of(result), *result.explains)
        every[places[cause.name]] = dataclasses.replace(cause, outcome=worst, explains=told)
        reason = f"explained by {cause.requirement.id} [{cause.binding}]"
        every[places[result.name]] = dataclasses.replace(result, outcome="explained", reason=reason, cause=cause.name)


def _differs(result: CheckResult) -> bool:
    return result.requirement.group == "equivalence"


def _request(exchange: Exchange) -> Key:
    return exchange.binding, exchange.method, _CALL_ID.sub("", exchange.request or exchange.url)


def _with_last_cause(result: CheckResult, by_name: Mapping[str, CheckResult]) -> CheckResult:
    """Name the cause that is told, where that of a result was explained in turn."""
    while (above := by_name.get(result.cause)) is not None and above.cause:
        result = dataclasses.replace(result, cause=above.cause, reason=above.reason)
    return result


def line_of(result: CheckResult) -> str:
    """Return the line that names a consequence under its cause."""
    what = result.findings[0].found if result.findings else result.reason
    return f"{result.requirement.id} [{result.binding}] {what if len(what) <= 100 else what[:97] + '...'}"


def _with_unmade(result: CheckResult, unmade: int) -> CheckResult:
    """Add what could not be judged because of a cause that was known before the checks, such as a dead interface."""
    if result.outcome not in FOUND or not unmade:
        return result
    line = f"{unmade} checks of {result.binding} could not be made"
    return dataclasses.replace(result, explains=(*result.explains, line))
