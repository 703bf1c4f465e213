"""Steps for questions that count records: service cases, orders, opportunities and leads."""

from __future__ import annotations

import re
from collections import Counter
from datetime import timedelta

from mini_org.solve.task import (
    AgentTask,
    Record,
    Steps,
    best,
    counts,
    day,
    left_over,
    literal,
    means,
    moment,
    parent,
    quoted,
    window_of,
    within,
)
from mini_org.time_windows import NUMBERS, TimeWindow, parse_threshold, read_number
from pytest_a2a_bench.benchmarks.crmarena.tasks import MONTHS, NONE

_LOW = re.compile(
    r"\b(lowest|(?<!at )least|minimum|shortest|quickest|fastest|fewest|smallest|less|poorest|worst)\b", re.I
)


def wants_highest(query: str) -> bool:
    """Tell whether a question asks for the highest value, not the lowest."""
    return not _LOW.search(query)


def handle_time(task: AgentTask) -> Steps:
    """Mean time to close by agent, over cases that never changed hands."""
    window = window_of(task)
    closed = yield (
        "SELECT Id, OwnerId, CreatedDate, ClosedDate FROM Case"
        f" WHERE {within('CreatedDate', window)} AND ClosedDate != null{_unmerged(task)}"
    )
    assigned = _once((yield _assignments(task, window)))
    hands = Counter(record["CaseId__c"] for record in assigned)
    handled = Counter(record["NewValue__c"] for record in assigned if record.get("NewValue__c"))
    threshold = parse_threshold(task.query)
    minutes = means(
        (case["OwnerId"], (moment(case["ClosedDate"]) - moment(case["CreatedDate"])) / timedelta(minutes=1))
        for case in closed
        if hands[case["Id"]] == 1 and handled[case["OwnerId"]] > threshold
    )
    return best(minutes, highest=wants_highest(task.query))


def transfer_count(task: AgentTask) -> Steps:
    """Cases given away by agent."""
    assigned = _once((yield _assignments(task, window_of(task))))
    given = Counter(record["OldValue__c"] for record in assigned if record.get("OldValue__c"))
    handled = Counter(record["NewValue__c"] for record in assigned if record.get("NewValue__c"))
    threshold = parse_threshold(task.query)
    qualified = {agent: n for agent, n in given.items() if handled[agent] > threshold}
    return best(qualified, highest=wants_highest(task.query))


def _unmerged(task: AgentTask, path: str = "Status") -> str:
    """Return the condition that leaves out cases that were opened twice, where a task speaks of them."""
    return f" AND {path} != 'Merged'" if "Status 'Merged'" in task.required else ""


def _once(history: list[Record]) -> list[Record]:
    """Return records of a case history without those that are there twice."""
    return list(
        {
            (each["CaseId__c"], each["CreatedDate"], each["OldValue__c"], each["NewValue__c"]): each for each in history
        }.values()
    )


def _assignments(task: AgentTask, window: TimeWindow) -> str:
    # Upstream's own functions count histories up to and including a period's end, and cases before it.
    return (
        "SELECT CaseId__c, CreatedDate, OldValue__c, NewValue__c FROM CaseHistory__c"
        f" WHERE Field__c = 'Owner Assignment' AND {within('CreatedDate', window, last='<=')}"
        f"{_unmerged(task, 'CaseId__r.Status')}"
    )


def best_region(task: AgentTask) -> Steps:
    """Mean time to close by the account's state."""
    closed = yield (
        "SELECT CreatedDate, ClosedDate, Account.ShippingState FROM Case"
        f" WHERE {within('CreatedDate', window_of(task))} AND ClosedDate != null{_unmerged(task)}"
    )
    minutes = means(
        (state, (moment(case["ClosedDate"]) - moment(case["CreatedDate"])) / timedelta(minutes=1))
        for case in closed
        if (state := parent(case, "Account.ShippingState"))
    )
    return best(minutes, highest=False)


def _of_product(task: AgentTask) -> str:
    product = task.named_id("01t")
    return (
        f"OrderItemId__c IN (SELECT Id FROM OrderItem WHERE Product2Id = '{product}')"
        f" AND {within('CreatedDate', window_of(task))}{_unmerged(task)}"
    )


def top_issue(task: AgentTask) -> Steps:
    """Most frequent issue of one product."""
    groups = yield f"SELECT IssueId__c, COUNT(Id) n FROM Case WHERE {_of_product(task)} GROUP BY IssueId__c"
    return best(counts(groups, "IssueId__c"), highest=True)


def monthly_trend(task: AgentTask) -> Steps:
    """Month with most cases about one product."""
    cases = yield f"SELECT CreatedDate FROM Case WHERE {_of_product(task)}"
    return best(Counter(MONTHS[moment(case["CreatedDate"]).month - 1] for case in cases), highest=True)


def case_routing(task: AgentTask) -> Steps:
    """Who knows the issue, then the product, then has least to do."""
    issues = yield "SELECT Id, Name, Description__c FROM Issue__c"
    products = yield "SELECT Id, Name FROM Product2"
    if "not in Product2" in task.required and not any(record["Name"] in task.query for record in products):
        return NONE
    issue = max(issues, key=lambda record: _shared(str(record.get("Description__c", "")), task.query))
    product = max(products, key=lambda record: len(record["Name"]) if record["Name"] in task.query else 0)
    group = "GROUP BY OwnerId"
    by_issue = yield (
        f"SELECT OwnerId, COUNT(Id) n FROM Case WHERE IssueId__c = '{issue['Id']}' AND Status = 'Closed' {group}"
    )
    left = left_over(counts(by_issue, "OwnerId"), counts(by_issue, "OwnerId"))
    by_product = yield (
        "SELECT OwnerId, COUNT(Id) n FROM Case WHERE Status = 'Closed' AND"
        f" OrderItemId__c IN (SELECT Id FROM OrderItem WHERE Product2Id = '{product['Id']}') {group}"
    )
    left = left_over(left, counts(by_product, "OwnerId"))
    closed = "NOT IN ('Closed', 'Merged')" if "nor 'Merged'" in task.required else "!= 'Closed'"
    still_open = yield f"SELECT OwnerId, COUNT(Id) n FROM Case WHERE Status {closed} {group}"
    left = left_over(left, counts(still_open, "OwnerId"), highest=False)
    return left[0] if len(left) == 1 else NONE


def _shared(one: str, other: str) -> int:
    """Return how many words in a row two texts share at most."""
    first, second = (re.findall(r"[a-z']+", text.lower()) for text in (one, other))
    joined = " " + " ".join(second) + " "
    longest = 0
    for start in range(len(first)):
        while start + longest < len(first) and f" {' '.join(first[start : start + longest + 1])} " in joined:
            longest += 1
    return longest


_AGO = re.compile(rf"\b(a|an|\d+|{'|'.join(NUMBERS)}|thirty)\s+(day|week)s?\s+(?:ago|back|prior|earlier)\b", re.I)


def disambiguation(task: AgentTask) -> Steps:
    """Find the product of a kind in the contact's orders of one day."""
    contacts = yield f"SELECT AccountId FROM Contact WHERE Id = '{task.named_id('003')}'"
    found = _AGO.search(task.query)
    if not contacts or not found:
        return NONE
    count = 1 if found[1].lower() in ("a", "an") else 30 if found[1].lower() == "thirty" else read_number(found[1])
    bought = task.today - timedelta(days=count * (7 if found[2].lower() == "week" else 1))
    items = yield (
        "SELECT Product2Id, Product2.Name, Product2.Description FROM OrderItem"
        f" WHERE Order.AccountId = {literal(contacts[0]['AccountId'])} AND Order.Status = 'Activated'"
        f" AND Order.EffectiveDate = {bought}"
    )
    return best({item["Product2Id"]: score for item in items if (score := _fit(item, task.query))}, highest=True)


def _fit(item: Record, query: str) -> int:
    """Return how many words in a row the product's description shares with the question; one word is chance."""
    shared = _shared(parent(item, "Product2.Description"), query)
    return shared if shared > 1 else 0


def _in_dollars(task: AgentTask) -> str:
    """Return the condition that leaves out orders in other currencies, where a task speaks of them."""
    book = re.search(r"price book with the Name '([^']+)'", task.required)
    return f" AND Order.Pricebook2.Name = {literal(book[1])}" if book else ""


def _owned(task: AgentTask, path: str = "") -> str:
    """Return the condition that leaves out what belongs to deleted users, where a task speaks of them."""
    return f" AND {path}Owner.Id != null" if "no user any more" in task.required else ""


def sales_amount(task: AgentTask) -> Steps:
    """Sum of quantity times price by the order's owner."""
    items = yield (
        "SELECT Quantity, UnitPrice, Order.OwnerId FROM OrderItem"
        f" WHERE {within('Order.EffectiveDate', window_of(task), time=False)} AND Order.Status = 'Activated'"
        f"{_in_dollars(task)}{_owned(task, 'Order.')}"
    )
    totals: Counter[str] = Counter()
    for item in items:
        totals[parent(item, "Order.OwnerId")] += round(float(item["Quantity"]) * float(item["UnitPrice"]) * 100)
    return best(totals, highest=wants_highest(task.query))


def sales_cycle(task: AgentTask) -> Steps:
    """Mean days from opportunity to signature by the opportunity's owner."""
    signed = "ContractID__r.CompanySignedDate"
    active = " AND ContractID__r.Status = 'Activated'" if "status Activated count" in task.required else ""
    deals = yield (
        f"SELECT OwnerId, CreatedDate, {signed} FROM Opportunity"
        f" WHERE {within(signed, window_of(task), time=False)}{active}{_owned(task)}"
    )
    days = means((deal["OwnerId"], (day(parent(deal, signed)) - day(deal["CreatedDate"])).days) for deal in deals)
    return best(days, highest=wants_highest(task.query))


def conversion_rate(task: AgentTask) -> Steps:
    """Share of a period's leads converted in the same period, by owner."""
    window = window_of(task)
    own = " AND Status != 'Duplicate'" if "Status 'Duplicate'" in task.required else ""
    leads = yield f"SELECT OwnerId, ConvertedDate FROM Lead WHERE {within('CreatedDate', window)}{own}{_owned(task)}"
    rates = means(
        (lead["OwnerId"], float(bool(lead.get("ConvertedDate")) and window.holds(day(lead["ConvertedDate"]))))
        for lead in leads
    )
    return best(rates, highest=wants_highest(task.query))


_STATE = re.compile(r"(?:State|Lead's region):\s*([A-Z]{2})\b")


def lead_routing(task: AgentTask) -> Steps:
    """Territory, then accepted quotes, then fewest open leads."""
    territories = yield "SELECT Id, Description FROM Territory2"
    state = _STATE.search(task.required)
    if not state:
        return NONE
    places = [
        territory["Id"]
        for territory in territories
        if state[1] in [name.strip() for name in str(territory.get("Description", "")).split(",")]
    ]
    if not places:
        return NONE
    members = yield f"SELECT UserId FROM UserTerritory2Association WHERE Territory2Id IN {quoted(places)}"
    agents = sorted({member["UserId"] for member in members})
    accepted = yield (
        "SELECT Opportunity.OwnerId, COUNT(Id) n FROM Quote WHERE Status = 'Accepted'"
        f" AND Opportunity.OwnerId IN {quoted(agents)} GROUP BY Opportunity.OwnerId"
    )
    left = left_over(agents, counts(accepted, "OwnerId"))
    waiting = yield (
        "SELECT OwnerId, COUNT(Id) n FROM Lead"
        f" WHERE IsConverted = false AND OwnerId IN {quoted(left)} GROUP BY OwnerId"
    )
    left = left_over(left, counts(waiting, "OwnerId"), highest=False)
    return left[0] if len(left) == 1 else NONE
