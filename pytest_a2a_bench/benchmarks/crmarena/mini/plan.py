"""What the generator knows of the rows that it makes: the plan from which golds are told, never the rows themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime

from pytest_a2a_bench.benchmarks.crmarena.mini.tables import Tables


@dataclass(frozen=True, slots=True)
class Person:
    """A user of the org: service agent, sales agent or manager."""

    key: str
    name: str


@dataclass(frozen=True, slots=True)
class Firm:
    """An account with the contacts who work there."""

    key: str
    name: str
    state: str
    contacts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Product:
    """A product; two or more share a ``kind``, which is what makes a customer's words ambiguous."""

    key: str
    entry: str
    name: str
    kind: str
    price: int


@dataclass(frozen=True, slots=True)
class Issue:
    """A kind of complaint; ``complaint`` is quoted by cases and by the issue's description."""

    key: str
    name: str
    complaint: str


@dataclass(frozen=True, slots=True)
class Territory:
    """A sales territory: its states and the sales agents who work there, each in one territory only."""

    key: str
    name: str
    states: tuple[str, ...]
    agents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Item:
    """A line of an order."""

    key: str
    product: Product
    quantity: int
    price: int


@dataclass(frozen=True, slots=True)
class Order:
    """An order of a firm, owned by a sales agent."""

    key: str
    firm: Firm
    owner: str
    day: date
    active: bool
    items: tuple[Item, ...]

    @property
    def amount(self) -> int:
        """Dollars: quantity times price over all lines."""
        return sum(item.quantity * item.price for item in self.items)


@dataclass(frozen=True, slots=True)
class Case:
    """A service case. ``hands`` are the agents who had it, in order, and since when."""

    key: str
    firm: Firm
    contact: str
    product: Product
    issue: Issue
    created: datetime
    closed: datetime | None
    hands: tuple[tuple[str, datetime], ...]

    @property
    def owner(self) -> str:
        """The agent who has it now."""
        return self.hands[-1][0]

    @property
    def minutes(self) -> float | None:
        """From opening to closing; None while open."""
        return (self.closed - self.created).total_seconds() / 60 if self.closed else None


@dataclass(frozen=True, slots=True)
class Lead:
    """A lead of a sales agent."""

    key: str
    owner: str
    created: datetime
    converted: date | None


@dataclass(frozen=True, slots=True)
class Deal:
    """An opportunity; ``signed`` is when its contract, if it has one, was signed by the company."""

    key: str
    firm: Firm
    contact: str
    owner: str
    created: datetime
    signed: date | None
    stage: str


@dataclass(slots=True)
class World:
    """Everything that was planned so far, and the rows made of it."""

    seed: int
    per_category: int
    tables: Tables = field(default_factory=Tables)
    pricebook: str = ""
    service: list[Person] = field(default_factory=list)
    sales: list[Person] = field(default_factory=list)
    territories: list[Territory] = field(default_factory=list)
    firms: list[Firm] = field(default_factory=list)
    products: list[Product] = field(default_factory=list)
    issues: list[Issue] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)
    leads: list[Lead] = field(default_factory=list)
    deals: list[Deal] = field(default_factory=list)
    accepted: dict[str, int] = field(default_factory=dict)
    """Accepted quotes by sales agent."""
