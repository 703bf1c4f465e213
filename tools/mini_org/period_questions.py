"""Questions about a time window ("over the past two quarters"), drawn until each has a single answer.

A candidate is dropped where the first and the second are closer than a margin, and where something that counts happened
on a border day of the window: so it does not matter whether an agent takes the borders in, or counts hours or days.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Literal

from mini_org.building import (
    MOST_TRIES,
    SeededRandom,
    TaskDraft,
    is_common,
)
from mini_org.company import Company, Product
from mini_org.time_windows import (
    NUMBERS,
    TimeWindow,
    Unit,
    month_of,
    quarter_of,
    rolling,
    season_of,
)
from pytest_a2a_bench.benchmarks.crmarena.tasks import MONTHS, NONE
from pytest_a2a_bench.errors import HarnessError

CLOCK_RULE = (
    "- Write dates out in queries: date literals such as LAST_N_DAYS:30 count from the org's own clock instead."
)
"""Part of every task that has a today of its own, as the published ones do."""

UNCLEAR: Literal["unclear"] = "unclear"
"""Instead of an answer: two are too close to each other, so the question is not asked."""

Winner = str | None
"""A winner, None where nobody qualifies, or :data:`UNCLEAR`."""

FIRST_YEAR = 2021
LAST_YEAR = 2023
_TRIES = 4000
_UNITS: tuple[Unit, ...] = ("week", "month", "quarter")


@dataclass(frozen=True, slots=True)
class PeriodQuestion:
    """What a question about a period is made of.

    :param threshold: only agents with more than so many cases count.
    :param product: the product that it asks about, if it asks about one.
    """

    window: TimeWindow
    phrase: str
    today: date
    highest: bool
    threshold: int
    product: Product | None

    @property
    def meaning(self) -> tuple[object, ...]:
        """What is asked, whatever the words and the day of asking: no two tasks ask the same."""
        return self.window, self.highest, self.threshold, self.product


def find_winner(scores: Mapping[str, float], *, highest: bool, margin: float = 0.0) -> Winner:
    """Return who has the highest or lowest score.

    :param margin: share by which the second must be behind, of the larger of the two.
    """
    ranked = sorted(scores.items(), key=lambda pair: -pair[1] if highest else pair[1])
    if not ranked:
        return None
    if len(ranked) == 1:
        return ranked[0][0]
    first, second = ranked[0][1], ranked[1][1]
    apart = abs(first - second)
    return ranked[0][0] if apart > margin * max(abs(first), abs(second)) and apart > 0 else UNCLEAR


def draft_questions(
    company: Company,
    category: str,
    rules: str,
    phrases: Mapping[bool, Sequence[str]],
    tell: Callable[[PeriodQuestion], Winner],
    days: Sequence[date | datetime],
    *,
    thresholds: Sequence[int] = (0,),
    products: Sequence[Product | None] = (None,),
    short: bool = True,
    closing: str = "Answer with the agent's Id alone.",
) -> list[TaskDraft]:
    """Draw questions until there are enough with one clear answer, and one in five with none.

    :param phrases: wordings that ask for the highest (True) and the lowest, with places named ``period``, and where
        they matter ``handled``, ``product`` and ``product_id``.
    :param tell: computes the answer from the company, never from its rows.
    :param days: when what is counted happened; a period that has one on a border day is not asked about.
    :param short: whether a single month may be the period.
    """
    rng = SeededRandom(company.seed, category)
    nones = rng.nones(company.per_category)
    events = sorted(day.date() if isinstance(day, datetime) else day for day in days)
    drafts: dict[tuple[object, ...], TaskDraft] = {}
    for tries in range(_TRIES * (company.per_category + 1)):
        if len(drafts) == company.per_category:
            return list(drafts.values())
        question = _draw(rng, thresholds, tuple(phrases), products, short)
        if question.meaning in drafts or not _clear_borders(question.window, events):
            continue
        found = tell(question)
        if found == UNCLEAR or (found is None) != (len(drafts) in nones):
            continue
        if found is not None and tries < MOST_TRIES * company.per_category:
            if is_common(found, drafts.values(), company.per_category):
                continue
        text = rng.pick(phrases[question.highest]).format(
            period=question.phrase,
            handled=_more_than(question.threshold),
            product=question.product.name if question.product else "",
            product_id=question.product.key if question.product else "",
        )
        required = f"{rules}\n\n{period_rules(question.today)}"
        drafts[question.meaning] = TaskDraft(f"{text} {closing}", required, (found or NONE,))
    raise HarnessError(
        f"mini org, seed {company.seed}: {len(drafts)} of {company.per_category} questions for {category}"
    )


def period_rules(today: date) -> str:
    """Return what an agent must know about periods, as part of a task's required knowledge."""
    return (
        f"## Today's date: {today}\n"
        f"{CLOCK_RULE}\n"
        "- A period of the past N weeks, months or quarters ends with yesterday and begins N weeks, N months or 3 x N"
        " months before today.\n"
        "- Quarters are those of the calendar. Seasons: spring March to May, summer June to August, autumn September"
        " to November, winter December to February, named by the year of its December."
    )


def _more_than(threshold: int) -> str:
    return f"more than {NUMBERS[threshold]} case{'' if threshold == 1 else 's'}"


def _draw(
    rng: SeededRandom,
    thresholds: Sequence[int],
    directions: Sequence[bool],
    products: Sequence[Product | None],
    short: bool,
) -> PeriodQuestion:
    today = date(FIRST_YEAR, 2, 1) + timedelta(days=rng.below(365 * (LAST_YEAR - FIRST_YEAR + 1)))
    if rng.chance(0.55):
        unit, count = rng.pick(_UNITS if short else _UNITS[1:]), rng.between(2, 6)
        window, phrase = rolling(today, count, unit), f"over the past {_said(rng, count)} {unit}s"
    else:
        window, phrase = _named(rng, short)
        # Nobody asks what happened in a period that is not over.
        today = max(today, window.end + timedelta(days=rng.between(1, 200)))
    return PeriodQuestion(window, phrase, today, rng.pick(directions), rng.pick(thresholds), rng.pick(products))


def _said(rng: SeededRandom, count: int) -> str:
    return str(count) if rng.chance(0.4) else NUMBERS[count]


def _named(rng: SeededRandom, short: bool) -> tuple[TimeWindow, str]:
    year = rng.between(FIRST_YEAR - 1, LAST_YEAR)
    kind = rng.below(3) if short else rng.between(1, 2)
    if kind == 0:
        month = rng.between(1, 12)
        return month_of(year, month), f"in {MONTHS[month - 1]} {year}"
    if kind == 1:
        quarter = rng.between(1, 4)
        return quarter_of(year, quarter), f"in Q{quarter} {year}" if rng.chance(0.5) else (
            f"in the {('first', 'second', 'third', 'fourth')[quarter - 1]} quarter of {year}"
        )
    season = rng.pick(("spring", "summer", "autumn", "winter"))
    return season_of(year, season), f"in the {season} of {year}"


def _clear_borders(window: TimeWindow, events: Sequence[date]) -> bool:
    for border in (window.start, window.end):
        at = bisect_left(events, border)
        if at < len(events) and events[at] == border:
            return False
    return True
