"""Which checks a run makes, and how many messages they send, known before any is sent (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_a2a_bench.conformance.check import added_of
from pytest_a2a_bench.conformance.cost.facts import Facts, facts_of
from pytest_a2a_bench.conformance.cost.table import SELF, CostTable, Use, crossed, load_table
from pytest_a2a_bench.conformance.crossing import FILLING
from pytest_a2a_bench.conformance.engine import Planned, is_rough
from pytest_a2a_bench.conformance.requirements import whose_pack
from pytest_a2a_bench.conformance.session.target import Target

STANDARD_MESSAGES = 40
"""Most messages that the profile ``standard`` sends to one interface, counting those that an agent works on."""

LEFT_OUT = "left out: "
"""What the reason begins with of a check that a profile or a budget leaves out."""

_LEVELS = {"MUST": 0, "SHOULD": 1, "MAY": 2}
_Node = tuple[str, str, str]
_Interface = tuple[str, str]
_Limit = tuple[str, Callable[["Sum"], bool]]
_SEEN_ELSEWHERE = 0.25


@dataclass(frozen=True, slots=True)
class Sum:
    """How many messages go to each interface (version and binding).

    :param messages: those that a correct agent works on.
    :param refused: those that it refuses before anything works on them.
    """

    messages: Counter[_Interface] = field(default_factory=Counter)
    refused: Counter[_Interface] = field(default_factory=Counter)

    def __add__(self, other: Sum) -> Sum:
        return Sum(self.messages + other.messages, self.refused + other.refused)

    @property
    def total(self) -> int:
        """All of them."""
        return self.messages.total() + self.refused.total()


@dataclass(frozen=True, slots=True)
class Row:
    """One check of a plan.

    :param sends: what it adds: what an earlier check of the plan has sent already is not sent again.
    """

    planned: Planned
    sends: Sum


@dataclass(frozen=True, slots=True)
class CostPlan:
    """The checks that are made, what they send, and the checks that are left out.

    :param left_out: name of a check -> why it is not made.
    :param crossed: whether each rule is tried in every further cell, too.
    """

    rows: tuple[Row, ...]
    left_out: Mapping[str, str]
    crossed: bool = False

    @property
    def filling(self) -> int:
        """Most further messages to an interface for tasks that cells need; none where the agent has as many."""
        made = {row.planned.requirement.id for row in self.rows} if self.crossed else set()
        return sum(most for rule, most in FILLING.items() if rule in made)

    @property
    def total(self) -> Sum:
        """What all checks send together."""
        return sum((row.sends for row in self.rows), Sum())

    @property
    def chosen(self) -> list[Planned]:
        """The checks that are made."""
        return [row.planned for row in self.rows]


class _Estimate:
    """Adds up what checks send, each shared object once.

    :param crossed: whether each is made in every further cell, too.
    """

    def __init__(self, table: CostTable, facts: Mapping[_Interface, Facts], *, crossed: bool = False) -> None:
        self._table = table
        self._facts = facts
        self._crossed = crossed
        self._made: set[_Node] = set()

    def cost(self, planned: Planned) -> tuple[Sum, set[_Node]]:
        """Return what a check would add, and which nodes it would make."""
        version, id = planned.requirement.version, planned.requirement.id
        names = (id, crossed(id)) if self._crossed else (id,)
        found, waiting = Sum(), [(version, planned.binding, name) for name in names]
        fresh: set[_Node] = set()
        while waiting:
            node = waiting.pop()
            if node in self._made or node in fresh:
                continue
            fresh.add(node)
            facts = self._facts.get(node[:2])
            # Nothing is sent to an interface that the card does not declare.
            if facts is None:
                continue
            use = self._table.use(*node, facts)
            found += self._sum(use, node)
            waiting += [(version, node[1] if binding == SELF else binding, name) for binding, name in use.needs]
        return found, fresh

    def add(self, planned: Planned) -> Sum:
        """Take a check in, and return what it adds."""
        found, fresh = self.cost(planned)
        self._made |= fresh
        return found

    def _sum(self, use: Use, node: _Node) -> Sum:
        def at(counts: Mapping[str, int]) -> Counter[_Interface]:
            places = {(node[0], node[1] if b == SELF else b): n for b, n in counts.items()}
            return Counter({place: n for place, n in places.items() if place in self._facts})

        return Sum(at(use.messages), at(use.refused))


def make_plan(
    planned: Iterable[Planned],
    targets: Sequence[Target],
    *,
    profile: str = "standard",
    budget: int | None = None,
) -> CostPlan:
    """Choose the checks of a run.

    :param planned: what was chosen otherwise.
    :param targets: the interfaces that are judged.
    :param profile: one of :data:`~pytest_a2a_bench.settings.CHECK_PROFILES`.
    :param budget: most messages of the whole run, of whatever kind; None for no limit.
    """
    table = load_table()
    interfaces = [(t.binding, t.version) for t in targets]
    facts = {(t.version, t.binding): facts_of(t, interfaces) for t in targets}
    every = list(planned)
    left: dict[str, str] = {}
    if profile == "safe":
        left = {p.name: f"{LEFT_OUT}not in the profile safe: {why}" for p in every if (why := _risk(p, table))}
    wanted = [p for p in every if p.name not in left]
    limits: list[_Limit] = []
    if profile != "full":
        limits.append((f"{LEFT_OUT}beyond the {STANDARD_MESSAGES} messages of the profile {profile}", _is_standard))
    if budget is not None:
        limits.append((f"{LEFT_OUT}beyond the budget of {budget} messages", lambda total: total.total <= budget))
    measured = [p for p in wanted if not added_of(p.requirement)]
    left |= _beyond(measured, table, facts, limits)
    if budget is not None:
        left |= _unpaid(wanted, left, _Estimate(table, facts), budget)
    # A budget is spent on the checks themselves (Session.is_limited), as wide as they are in every profile.
    is_crossed = profile == "full" and budget is None
    estimate = _Estimate(table, facts, crossed=is_crossed)
    rows = tuple(Row(p, estimate.add(p)) for p in wanted if p.name not in left)
    return CostPlan(rows, left, crossed=is_crossed)


def _is_standard(total: Sum) -> bool:
    return max(total.messages.values(), default=0) <= STANDARD_MESSAGES


def _risk(planned: Planned, table: CostTable) -> str:
    """Return why a check is not for an agent in production; empty where it is."""
    if (added := added_of(planned.requirement)) and added.risk:
        return added.risk
    if is_rough(planned):
        return "sends what is malformed"
    # A task that works for seconds stays behind, working, where a run is killed.
    if "slow" in planned.requirement.needs:
        return "leaves a working task if it is stopped"
    if whose := whose_pack(planned.requirement):
        return f"nobody has measured what checks of {whose} send"
    return table.unsafe.get((planned.requirement.version, planned.requirement.id), "")


def _unpaid(wanted: Sequence[Planned], left: Mapping[str, str], estimate: _Estimate, budget: int) -> dict[str, str]:
    """Return the added checks for which a budget has nothing left; they were asked for, so no other limit is theirs."""
    total = sum((estimate.add(p) for p in wanted if p.name not in left and not added_of(p.requirement)), Sum())
    found: dict[str, str] = {}
    for planned in wanted:
        if added_of(planned.requirement):
            cost, _ = estimate.cost(planned)
            if (total + cost).total > budget:
                found[planned.name] = f"{LEFT_OUT}beyond the budget of {budget} messages"
            else:
                total += estimate.add(planned)
    return found


def _beyond(
    wanted: Sequence[Planned],
    table: CostTable,
    facts: Mapping[_Interface, Facts],
    limits: Sequence[_Limit],
) -> dict[str, str]:
    """Return the checks that do not fit, each with the limit that it exceeds.

    Greedy: always the check that finds most further faults for each message that it adds. What costs nothing is made.
    """
    estimate, total = _Estimate(table, facts), Sum()
    for planned in wanted:
        total += estimate.add(planned)
    if all(fits(total) for _, fits in limits):
        return {}
    return _Greedy(wanted, table, _Estimate(table, facts)).left_out(limits)


class _Greedy:
    """Takes checks in the order of what they find for each message that they add.

    Costs and worth are kept, and reckoned again only for the checks that the last one has changed: four hundred checks,
    each compared with all others, would take as long as the run.
    """

    def __init__(self, wanted: Sequence[Planned], table: CostTable, estimate: _Estimate) -> None:
        self._estimate = estimate
        self._waiting = dict(enumerate(wanted))
        self._kills = {n: _kills(planned, table) for n, planned in self._waiting.items()}
        self._found: set[tuple[str, str]] = set()
        self._names: set[str] = set()
        self._costs: dict[int, tuple[Sum, set[_Node]]] = {}
        self._worth: dict[int, tuple[float, int, float, int]] = {}
        for number in self._waiting:
            self._reckon(number)

    def left_out(self, limits: Sequence[_Limit]) -> dict[str, str]:
        """Return the checks that do not fit, each with the limit that it exceeds."""
        total = Sum()
        left: dict[str, str] = {}
        while self._waiting:
            number = max(self._waiting, key=self._worth.__getitem__)
            cost, fresh = self._costs[number]
            planned = self._waiting.pop(number)
            beyond = next((why for why, fits in limits if not fits(total + cost)), "") if cost.total else ""
            if beyond:
                left[planned.name] = beyond
                continue
            total += self._estimate.add(planned)
            self._take(number, fresh)
        return left

    def _take(self, number: int, fresh: set[_Node]) -> None:
        kills = self._kills[number] - self._found
        self._found |= kills
        names = {name for _, name in kills}
        self._names |= names
        for other in self._waiting:
            if self._costs[other][1] & fresh or any(name in names for _, name in self._kills[other]):
                self._reckon(other)

    def _reckon(self, number: int) -> None:
        planned = self._waiting[number]
        cost, _ = self._costs[number] = self._estimate.cost(planned)
        # A fault that another binding's check finds already is worth less, and not nothing.
        new = self._kills[number] - self._found
        power = sum(_SEEN_ELSEWHERE if name in self._names else 1.0 for _, name in new)
        rate = power / cost.total if cost.total else float("inf")
        self._worth[number] = (rate, -_LEVELS[planned.requirement.level], -float(cost.total), -number)


def _kills(planned: Planned, table: CostTable) -> set[tuple[str, str]]:
    names = table.kills.get((planned.requirement.version, planned.requirement.id), frozenset())
    return {(planned.binding, name) for name in names}
