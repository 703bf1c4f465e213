"""Routing: who should take a new case or a new lead, decided at one planted depth of the policy's tie-breaks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import cycle

from mini_org.building import MOST_TRIES, SeededRandom, TaskDraft, is_common
from mini_org.company import Case, Company, Issue, Product
from mini_org.sales import add_lead
from mini_org.service import add_case
from mini_org.words import (
    FIRM_HEADS,
    FIRM_TAILS,
    INDUSTRIES,
    OUTSIDE_STATES,
    UNKNOWN_HEADS,
)
from pytest_a2a_bench.benchmarks.crmarena.tasks import NONE
from pytest_a2a_bench.errors import HarnessError

CASE_RULES = """\
## Case routing policy
Compare the service agents in this order, and stop as soon as one is ahead:
1. Issue: whose closed cases with the issue that fits the new case best are most.
2. Product: among those who are equal, whose closed cases about the product of the new case are most.
3. Workload: among those who are still equal, who owns the fewest cases whose Status is neither 'Closed' nor 'Merged'.
A case counts for its owner. Its product is that of its order item (OrderItemId__c).
A case about a product that is not in Product2 goes to nobody: then the answer is None."""

_OPENINGS = (
    "We have a problem with our {product} on line {n}: {complaint}.",
    "I am writing about the {product} in hall {n}, because {complaint}. Please help us soon.",
    "Our {product}, inventory number {n}, gives us trouble: {complaint}. What can be done?",
)


def plant_case_ties(company: Company) -> None:
    """Add closed cases until every second issue has one expert and the others have two or three equal ones."""
    rng = SeededRandom(company.seed, "case ties")
    for number, issue in enumerate(company.issues):
        counts = Counter({person.key: 0 for person in company.service})
        counts.update(case.owner for case in company.cases if case.issue == issue and case.closed)
        ranked = [agent for agent, _ in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))]
        top = counts[ranked[0]]
        equal = 1 if number % 2 == 0 else 2 + number % 4 // 3
        wanted = {agent: top + (equal == 1) for agent in ranked[:equal]}
        for agent, goal in wanted.items():
            for _ in range(goal - counts[agent]):
                _closed_case(company, rng, issue, agent)
        # A fourth agent may have been equal to the first from the start.
        if equal > 1 and counts[ranked[equal]] == top:
            for agent in ranked[:equal]:
                _closed_case(company, rng, issue, agent)


def _closed_case(company: Company, rng: SeededRandom, issue: Issue, agent: str) -> None:
    add_case(company, rng, rng.pick(company.orders[: len(company.firms)]), issue, agent, closed=True, moved=False)


def case_routing(company: Company) -> list[TaskDraft]:
    """Tasks: who should take a new case; the three depths in turn, as far as the org has pairs for them."""
    rng = SeededRandom(company.seed, "case routing")
    by_depth: dict[int, list[tuple[Issue, Product, str]]] = {1: [], 2: [], 3: []}
    for issue in company.issues:
        for product in company.products:
            depth, agent = _route(company.cases, [person.key for person in company.service], issue, product)
            if agent:
                by_depth[depth].append((issue, product, agent))
    # Depth after depth, each with all its pairs before one comes again in other words.
    turns = [cycle(rng.shuffled(pairs)) for pairs in by_depth.values() if pairs]
    nones = rng.nones(company.per_category)
    drafts: dict[str, TaskDraft] = {}
    tries = 0
    while len(drafts) < company.per_category:
        tries += 1
        issue, product, agent = next(turns[(len(drafts) + tries) % len(turns)])
        if is_common(agent, drafts.values(), company.per_category) and tries < MOST_TRIES * company.per_category:
            continue
        name = f"{rng.pick(UNKNOWN_HEADS)} {product.name[-3:]}" if len(drafts) in nones else product.name
        body = rng.pick(_OPENINGS).format(product=name, complaint=issue.complaint, n=rng.between(2, 999))
        query = (
            "By the case routing policy, to whom does this new case go? Answer with the agent's Id alone.\n"
            f"## New case\n- Subject: Trouble with {name}\n- Description: {body}"
        )
        drafts.setdefault(query, TaskDraft(query, CASE_RULES, (NONE if len(drafts) in nones else agent,)))
    return list(drafts.values())


def _route(cases: Iterable[Case], agents: list[str], issue: Issue, product: Product) -> tuple[int, str | None]:
    """Return the depth at which one agent is left, and who; None if the policy does not decide."""
    all_cases = list(cases)
    closed = [case for case in all_cases if case.closed]
    rounds: tuple[Mapping[str, int], ...] = (
        Counter(case.owner for case in closed if case.issue == issue),
        Counter(case.owner for case in closed if case.product == product),
        Counter({agent: -sum(not case.closed and case.owner == agent for case in all_cases) for agent in agents}),
    )
    left = agents
    for depth, counts in enumerate(rounds, 1):
        left = _best(left, counts)
        if len(left) == 1:
            return depth, left[0]
    return len(rounds), None


def _best(agents: list[str], counts: Mapping[str, int]) -> list[str]:
    top = max(counts.get(agent, 0) for agent in agents)
    return [agent for agent in agents if counts.get(agent, 0) == top]


LEAD_RULES = """\
## Lead routing policy
1. Territory: the lead belongs to the territory whose description (states, separated by commas) has the lead's state.
   Only agents of that territory are compared.
2. Quotes: who has the most quotes with the status 'Accepted'. A quote counts for the owner of its opportunity.
3. Workload: among those who are equal, who owns the fewest leads that are not converted.
If no territory has the lead's state, the answer is None."""


def lead_routing(company: Company) -> list[TaskDraft]:
    """Tasks: who should get a new lead."""
    rng = SeededRandom(company.seed, "lead routing")
    places = [(territory, state) for territory in company.territories for state in territory.states]
    open_leads = Counter(lead.owner for lead in company.leads if lead.converted is None)
    drafts: dict[str, TaskDraft] = {}
    nones = rng.nones(company.per_category)
    tries = 0
    while len(drafts) < company.per_category:
        tries += 1
        territory, state = rng.pick(places)
        left = _best(list(territory.agents), company.accepted)
        left = _best(left, {agent: -open_leads[agent] for agent in left})
        if len(left) != 1:
            raise HarnessError(f"mini org, seed {company.seed}: no single agent for leads of {territory.name}")
        if is_common(left[0], drafts.values(), company.per_category) and tries < MOST_TRIES * company.per_category:
            continue
        empty = len(drafts) in nones
        firm = f"{rng.pick(FIRM_HEADS)} {rng.pick(FIRM_TAILS)} {rng.between(2, 99)}"
        required = (
            f"{LEAD_RULES}\n\n## The new lead (not in the org yet)\n- Company: {firm}\n"
            f"- Industry: {rng.pick(INDUSTRIES)}\n- State: {rng.pick(OUTSIDE_STATES) if empty else state}"
        )
        query = rng.pick(("To whom does the new lead of {} go?", "Who should look after the new lead of {}?"))
        drafts.setdefault(
            firm,
            TaskDraft(
                f"{query.format(firm)} Answer with the agent's Id alone.", required, (NONE if empty else left[0],)
            ),
        )
    return list(drafts.values())


def plant_lead_workloads(company: Company) -> None:
    """Give every agent of a territory another number of open leads, so that the workload decides between equal ones."""
    rng = SeededRandom(company.seed, "lead workloads")
    for territory in company.territories:
        counts = Counter(lead.owner for lead in company.leads if lead.converted is None)
        taken: set[int] = set()
        for agent in rng.shuffled(territory.agents):
            goal = counts[agent]
            while goal in taken:
                goal += 1
            taken.add(goal)
            for _ in range(goal - counts[agent]):
                add_lead(company, rng, agent, converted=False)
