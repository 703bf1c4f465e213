"""The fictional company: what is known of its people, customers and products, and their rows.

Golds are computed from these objects, never from the rows, so that a mistake in the rows cannot hide in the gold.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime

from mini_org import words
from mini_org.building import SeededRandom, Tables
from mini_org.ids import record_id


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
class Company:
    """The company as far as it is made: its people and dealings, and the rows of the org that follow from them."""

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


SERVICE_AGENTS = 8
SALES_AGENTS = 14
MANAGERS = 2
FIRMS = 40
CONTACTS_PER_FIRM = 2
PRODUCTS = 20


def add_basics(company: Company) -> None:
    """Make the people, territories, customers, products and issues that all other records refer to."""
    _people(company)
    _territories(company)
    _firms(company)
    _products(company)
    for name, complaint in words.ISSUES:
        key = company.tables.add("Issue__c", Name=name, Description__c=f"The customer reports that {complaint}.")
        company.issues.append(Issue(key, name, complaint))


def full_name(number: int, shift: int) -> tuple[str, str]:
    """Return the ``number``-th of the fictional names; another shift gives another series without repeats."""
    first, last = words.FIRST_NAMES, words.LAST_NAMES
    turn = number // len(first)
    return first[number % len(first)], last[(number + turn * 7 + shift) % len(last)]


def _people(company: Company) -> None:
    count = SERVICE_AGENTS + SALES_AGENTS + MANAGERS
    for number in range(count):
        first, last = full_name(number, 3)
        handle = f"{first[0]}{last}".lower()
        key = company.tables.add(
            "User",
            FirstName=first,
            LastName=last,
            Alias=handle[:8],
            Email=f"{handle}@larkfield.example",
            Username=f"{handle}@larkfield.example",
            Phone=f"555-01{number:02d}",
            ProfileId=record_id("00e", 1 if number < count - MANAGERS else 2),
            EmailEncodingKey="UTF-8",
            LanguageLocaleKey="en_US",
            LocaleSidKey="en_US",
            TimeZoneSidKey="America/Chicago",
        )
        person = Person(key, f"{first} {last}")
        if number < SERVICE_AGENTS:
            company.service.append(person)
        elif number < SERVICE_AGENTS + SALES_AGENTS:
            company.sales.append(person)


def _territories(company: Company) -> None:
    free = [person.key for person in company.sales]
    for number, (name, states) in enumerate(words.TERRITORIES):
        agents = tuple(free.pop(0) for _ in range(3 if number < 2 else 2))
        key = company.tables.add("Territory2", Name=name, Description=",".join(states))
        for agent in agents:
            company.tables.add("UserTerritory2Association", Territory2Id=key, UserId=agent)
        company.territories.append(Territory(key, name, states, agents))


def _firms(company: Company) -> None:
    rng = SeededRandom(company.seed, "firms")
    for number in range(FIRMS):
        tail = (number + number // len(words.FIRM_HEADS) * 3) % len(words.FIRM_TAILS)
        name = f"{words.FIRM_HEADS[number % len(words.FIRM_HEADS)]} {words.FIRM_TAILS[tail]}"
        state = words.ACCOUNT_STATES[number % len(words.ACCOUNT_STATES)]
        key = company.tables.add(
            "Account",
            Name=name,
            Industry=words.INDUSTRIES[tail],
            ShippingState=state,
            NumberOfEmployees=rng.between(4, 90) * 10,
            Phone=f"555-02{number:02d}",
            Description=f"{name} runs {rng.pick(words.USES)} with devices of {words.COMPANY}.",
        )
        contacts = tuple(_contact(company, key, name, number * CONTACTS_PER_FIRM + n) for n in range(CONTACTS_PER_FIRM))
        company.firms.append(Firm(key, name, state, contacts))


def _contact(company: Company, account: str, firm: str, number: int) -> str:
    first, last = full_name(number, 11)
    address = f"{first}.{last}@{firm.replace(' ', '')}.example".lower()
    return company.tables.add("Contact", AccountId=account, FirstName=first, LastName=last, Email=address)


def _products(company: Company) -> None:
    rng = SeededRandom(company.seed, "products")
    tables = company.tables
    catalog = record_id("0ZS", 0)
    categories = {
        kind: tables.add("ProductCategory", Name=f"{kind.capitalize()}s", CatalogId=catalog)
        for kind in words.PRODUCT_KINDS
    }
    company.pricebook = tables.add(
        "Pricebook2",
        Name="List prices",
        Description="What everybody pays before discounts",
        IsActive=True,
        ValidFrom=datetime(2020, 1, 1),
        ValidTo=datetime(2029, 12, 31),
    )
    # Each product can be asked about once per fact, so many knowledge tasks need more products.
    count = max(PRODUCTS, -(-company.per_category // (len(words.FACTS) - words.UNSAID)))
    for number in range(count):
        kind = words.PRODUCT_KINDS[number % len(words.PRODUCT_KINDS)]
        head = words.PRODUCT_HEADS[number % len(words.PRODUCT_HEADS)]
        name = f"{head} {kind[0].upper()}{number + 11}"
        price = rng.between(12, 90) * 10
        key = tables.add(
            "Product2",
            Name=name,
            Description=f"A {kind} made for {rng.pick(words.USES)}.",
            External_ID__c=f"LK-{number + 1:04d}",
            IsActive=True,
        )
        tables.add("ProductCategoryProduct", ProductCategoryId=categories[kind], ProductId=key)
        entry = tables.add("PricebookEntry", Pricebook2Id=company.pricebook, Product2Id=key, UnitPrice=price)
        company.products.append(Product(key, entry, name, kind, price))
