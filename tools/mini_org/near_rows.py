"""Rows that nearly count, by category and by the shortcut that takes them for rows that do."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from typing import Any

from mini_org import words
from mini_org.building import NewRow, SeededRandom, key_prefixes, written
from mini_org.ids import record_id
from mini_org.solve.counting import wants_highest
from mini_org.solve.task import AgentTask, window_of
from pytest_a2a_bench.benchmarks.crmarena.tasks import MONTHS

ENOUGH = 10
"""So many rows outweigh whatever is counted in a window of the mini org."""
_LONG = timedelta(days=240)


@dataclass(slots=True)
class NearMiss:
    """Rows that are put into an org together.

    :param task_id: the task that they are made for.
    :param shortcut: name of the shortcut that is meant to fall for them.
    """

    task_id: str
    shortcut: str
    rows: list[tuple[str, NewRow]] = field(default_factory=list)


@dataclass(slots=True)
class NearOrg:
    """An org while near misses are made for it.

    :param rows: its rows by object.
    :param marker: two characters in the ids of the rows made.
    """

    rows: Mapping[str, Sequence[Mapping[str, Any]]]
    rng: SeededRandom
    marker: str = "Nm"
    made: dict[str, int] = field(default_factory=dict)

    def add(self, miss: NearMiss, name: str, **values: Any) -> str:
        """Add a row to a near miss and return its id."""
        number = self.made[name] = self.made.get(name, -1) + 1
        key = record_id(key_prefixes()[name], number, marker=self.marker)
        miss.rows.append((name, {column: written(value) for column, value in values.items()} | {"Id": key}))
        return key

    def one(self, name: str, key: str) -> Mapping[str, Any]:
        """Return the row of an id; empty if there is none."""
        return next((row for row in self.rows[name] if row["Id"] == key), {})

    def other(self, name: str, column: str, not_this: str) -> str:
        """Return a value of a column that is another one."""
        values = sorted({str(row[column]) for row in self.rows[name] if row[column]} - {not_this})
        return self.rng.pick(values)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a near miss is put.

    :param gold: the task's answer, or None where there is none.
    :param when: the day of what nearly counts.
    :param inside: whether that is inside the task's window, so that a status has to keep the rows out.
    """

    org: NearOrg
    miss: NearMiss
    task: AgentTask
    gold: str | None
    when: date
    inside: bool

    @property
    def highest(self) -> bool:
        """Whether the most or longest is asked for."""
        return wants_highest(self.task.query)

    @property
    def moment(self) -> datetime:
        """A working hour of the day."""
        return datetime.combine(self.when, time(10, 30))

    def winner(self, name: str, column: str) -> str:
        """Return whose numbers have to grow so that another one answers: a rival's, or the gold's own."""
        if self.gold is None:
            return self.org.other(name, column, "")
        return self.org.other(name, column, self.gold) if self.highest else self.gold

    @property
    def of_deleted(self) -> bool:
        """Whether the rows belong to a user whose own row is gone."""
        return self.miss.shortcut == "counts-deleted-owners"

    def owner(self, name: str) -> str:
        """Return who owns the rows: a deleted user, or whose numbers have to grow."""
        if self.of_deleted:
            return record_id("005", len(self.org.made), marker=self.org.marker)
        return self.winner(name, "OwnerId")

    def add(self, name: str, **values: Any) -> str:
        """Add a row and return its id."""
        return self.org.add(self.miss, name, **values)


def near_sales_amount(at: Place) -> None:
    """Sell a lot in an order that is a draft, in another currency or dated behind the window, or as a deleted user."""
    book = at.org.rows["Pricebook2"][0]["Id"]
    if at.miss.shortcut == "ignores-currency":
        book = at.add("Pricebook2", Name="List prices in yen", IsActive=True)
    order = at.add(
        "Order",
        AccountId=at.org.rng.pick(at.org.rows["Account"])["Id"],
        OwnerId=at.owner("Order"),
        EffectiveDate=at.when,
        Pricebook2Id=book,
        Status="Draft" if at.miss.shortcut == "ignores-status" else "Activated",
    )
    product = at.org.rng.pick(at.org.rows["Product2"])["Id"]
    many = 1 if at.of_deleted and not at.highest else 900
    at.add("OrderItem", OrderId=order, Product2Id=product, Quantity=many, UnitPrice=many)


def near_sales_cycle(at: Place) -> None:
    """Sign a contract years after its opportunity: a draft, or behind the window; or as a deleted user."""
    account = at.org.rng.pick(at.org.rows["Account"])["Id"]
    contract = at.add(
        "Contract",
        AccountId=account,
        CompanySignedDate=at.when,
        CustomerSignedDate=at.when,
        StartDate=at.when,
        ContractTerm=12,
        Status="Draft" if at.miss.shortcut == "ignores-status" else "Activated",
        Description="Delivery and yearly calibration of devices",
    )
    at.add(
        "Opportunity",
        AccountId=account,
        OwnerId=at.owner("Opportunity"),
        ContractID__c=contract,
        Name=f"Renewal {at.when:%Y-%m}",
        CreatedDate=at.moment - timedelta(days=0 if at.of_deleted and not at.highest else 2_000),
        CloseDate=at.when,
        StageName="Closed",
        Probability=100,
        Amount=4_000,
    )


def near_conversion(at: Place) -> None:
    """Make leads that move a rate: copies, or created behind the window; or leads of a deleted user."""
    window = window_of(at.task)
    # Leads that are converted too late make a rate fall, leads that are converted at once make it rise.
    falls = not at.highest if at.of_deleted else at.highest and at.gold is not None
    owner = at.owner("Lead") if at.of_deleted else at.gold or at.org.other("Lead", "OwnerId", "")
    for number in range(ENOUGH):
        day = window.end + timedelta(days=400) if falls else at.when
        at.add(
            "Lead",
            FirstName=words.FIRST_NAMES[number],
            LastName=words.LAST_NAMES[number],
            Company=f"{words.FIRM_HEADS[number]} {words.FIRM_TAILS[0]}",
            OwnerId=owner,
            CreatedDate=at.moment,
            IsConverted=True,
            ConvertedDate=day,
            Status="Duplicate" if at.miss.shortcut == "ignores-status" else "Qualified",
        )


def _case(at: Place, owner: str | None, *, lasts: timedelta | None, **values: Any) -> str:
    given = {"Subject": "Readings drift", "Priority": "Medium", **values}
    return at.add(
        "Case",
        OwnerId=owner,
        CreatedDate=at.moment,
        ClosedDate=at.moment + lasts if lasts else None,
        Status="Merged" if at.inside else "Closed" if lasts else "Working",
        **given,
    )


def _assigned(at: Place, case: str, new: str | None, old: str | None = None) -> None:
    at.add(
        "CaseHistory__c",
        CaseId__c=case,
        CreatedDate=at.moment,
        Field__c="Owner Assignment",
        OldValue__c=old,
        NewValue__c=new,
    )


def near_handle_time(at: Place) -> None:
    """Make cases that took very long: merged ones, or opened behind the window."""
    who = at.winner("Case", "OwnerId")
    for _ in range(4):
        _assigned(at, _case(at, who, lasts=_LONG), who)


def near_transfers(at: Place) -> None:
    """Hand a case on often: a merged one, or behind the window."""
    who = at.winner("Case", "OwnerId")
    case = _case(at, who, lasts=None)
    for _ in range(4):
        _assigned(at, case, who)
    for _ in range(ENOUGH):
        _assigned(at, case, None, who)


def near_logged_twice(at: Place) -> None:
    """Log one transfer of the window again and again."""
    window = window_of(at.task)
    given = [
        row
        for row in at.org.rows["CaseHistory__c"]
        if row["OldValue__c"] and window.holds(date.fromisoformat(row["CreatedDate"][:10]))
    ]
    wanted = [row for row in given if (row["OldValue__c"] == at.gold) != at.highest]
    for _ in range(ENOUGH if wanted else 0):
        at.add("CaseHistory__c", **{name: value for name, value in wanted[0].items() if name != "Id"})


def near_region(at: Place) -> None:
    """Make slow cases in the region that is fastest: merged ones, or opened behind the window."""
    state = at.gold or at.org.rows["Account"][0]["ShippingState"]
    account = next(row["Id"] for row in at.org.rows["Account"] if row["ShippingState"] == state)
    for _ in range(3):
        _case(at, None, lasts=_LONG, AccountId=account)


def _about_product(at: Place, item: str, issue: str | None, months: Sequence[date]) -> None:
    for number in range(ENOUGH):
        moment = datetime.combine(months[number % len(months)], time(11))
        at.add(
            "Case",
            CreatedDate=moment,
            Status="Merged" if at.inside and at.miss.shortcut == "ignores-status" else "Working",
            OrderItemId__c=item,
            IssueId__c=issue,
            Subject="Readings drift",
            Priority="Low",
        )


def near_issue_or_month(at: Place) -> None:
    """Make cases about another issue, or in another month: merged, of a product of the same name, or too late."""
    product = at.task.named_id("01t")
    item = next((row["Id"] for row in at.org.rows["OrderItem"] if row["Product2Id"] == product), None)
    if at.miss.shortcut == "joins-by-name":
        item = _same_product(at, product)
    if item is not None:
        issue = at.org.other("Issue__c", "Id", at.gold or "")
        _about_product(at, item, issue, [_another_month(at)])


def _another_month(at: Place) -> date:
    """Return a day that lies as the place does, in a month that is not the answer."""
    if at.gold not in MONTHS:
        return at.when
    window = window_of(at.task)
    days = [at.when + timedelta(days=step) for step in range(-200, 200)]
    fits = [day for day in days if window.holds(day) == at.inside and day >= window.start]
    return next((day for day in fits if MONTHS[day.month - 1] != at.gold and day.weekday() < 5), at.when)


def _same_product(at: Place, product: str) -> str:
    known = at.org.one("Product2", product)
    twin = at.add("Product2", **{**known, "Id": None} | {"IsActive": False, "External_ID__c": None})
    order = at.add("Order", AccountId=at.org.rows["Account"][0]["Id"], EffectiveDate=at.when, Status="Draft")
    return at.add("OrderItem", OrderId=order, Product2Id=twin, Quantity=1, UnitPrice=100)


def near_bought(at: Place) -> None:
    """Order another product of the kind on the very day: in an order that stays a draft, or as a namesake."""
    contact = at.org.one("Contact", at.task.named_id("003"))
    today = at.task.today
    days = next((n for n, said in _AGO.items() if said in at.task.query), 0)
    kinds = {row["Id"]: str(row["Description"]).split(" made for")[0][2:] for row in at.org.rows["Product2"]}
    others = [key for key, kind in kinds.items() if kind in at.task.query and key != at.gold]
    if not days or not others or not contact:
        return
    day = today - timedelta(days=days)
    account, status = contact["AccountId"], "Draft"
    if at.miss.shortcut == "takes-a-namesake":
        account, status = at.org.other("Contact", "AccountId", account), "Activated"
        named = {name: contact[name] for name in ("FirstName", "LastName")}
        at.add("Contact", AccountId=account, Email=f"{named['LastName'].lower()}@post.example", **named)
    order = at.add("Order", AccountId=account, EffectiveDate=day, Status=status)
    at.add("OrderItem", OrderId=order, Product2Id=min(others), Quantity=2, UnitPrice=300)


_AGO = {3: "three days", 5: "five days", 7: "a week", 14: "two weeks", 21: "three weeks", 30: "thirty days"}


def near_lead_routing(at: Place) -> None:
    """Have quotes of a rival rejected."""
    state = re.search(r"State: ([A-Z]{2})", at.task.required)
    places = [row["Id"] for row in at.org.rows["Territory2"] if state and state[1] in row["Description"].split(",")]
    members = [r["UserId"] for r in at.org.rows["UserTerritory2Association"] if r["Territory2Id"] in places]
    rivals = [row for row in at.org.rows["Opportunity"] if row["OwnerId"] in members and row["OwnerId"] != at.gold]
    if not rivals:
        return
    deal = at.org.rng.pick(rivals)
    for number in range(ENOUGH + 10):
        at.add(
            "Quote",
            OpportunityId=deal["Id"],
            AccountId=deal["AccountId"],
            Name=f"Quote R{number} for {deal['Name']}",
            Status="Rejected",
            CreatedDate=deal["CreatedDate"],
        )


def near_case_routing(at: Place) -> None:
    """Make merged cases with the issue, for a rival."""
    said = re.sub(r"\s+", " ", at.task.query)
    issue = next(
        (
            row["Id"]
            for row in at.org.rows["Issue__c"]
            if row["Description__c"].removeprefix("The customer reports that ").rstrip(".") in said
        ),
        None,
    )
    if issue is None or at.gold is None:
        return
    for _ in range(ENOUGH * 2):
        _case(at, at.org.other("Case", "OwnerId", at.gold) if not at.miss.rows else at.miss.rows[0][1]["OwnerId"],
              lasts=None, IssueId__c=issue)  # fmt: skip
