"""The company itself: people, territories, customers, products and what can go wrong with them."""

from __future__ import annotations

from datetime import datetime

from pytest_a2a_bench.benchmarks.crmarena.mini import words
from pytest_a2a_bench.benchmarks.crmarena.mini.dice import Dice
from pytest_a2a_bench.benchmarks.crmarena.mini.ids import record_id
from pytest_a2a_bench.benchmarks.crmarena.mini.plan import Firm, Issue, Person, Product, Territory, World

SERVICE_AGENTS = 8
SALES_AGENTS = 14
MANAGERS = 2
FIRMS = 40
CONTACTS_PER_FIRM = 2
PRODUCTS = 20


def found(world: World) -> None:
    """Make everything that the rest refers to."""
    _people(world)
    _territories(world)
    _firms(world)
    _products(world)
    for name, complaint in words.ISSUES:
        key = world.tables.add("Issue__c", Name=name, Description__c=f"The customer reports that {complaint}.")
        world.issues.append(Issue(key, name, complaint))


def full_name(number: int, shift: int) -> tuple[str, str]:
    """Return the ``number``-th of the fictional names; another shift gives another series without repeats."""
    first, last = words.FIRST_NAMES, words.LAST_NAMES
    turn = number // len(first)
    return first[number % len(first)], last[(number + turn * 7 + shift) % len(last)]


def _people(world: World) -> None:
    count = SERVICE_AGENTS + SALES_AGENTS + MANAGERS
    for number in range(count):
        first, last = full_name(number, 3)
        handle = f"{first[0]}{last}".lower()
        key = world.tables.add(
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
            world.service.append(person)
        elif number < SERVICE_AGENTS + SALES_AGENTS:
            world.sales.append(person)


def _territories(world: World) -> None:
    free = [person.key for person in world.sales]
    for number, (name, states) in enumerate(words.TERRITORIES):
        agents = tuple(free.pop(0) for _ in range(3 if number < 2 else 2))
        key = world.tables.add("Territory2", Name=name, Description=",".join(states))
        for agent in agents:
            world.tables.add("UserTerritory2Association", Territory2Id=key, UserId=agent)
        world.territories.append(Territory(key, name, states, agents))


def _firms(world: World) -> None:
    dice = Dice(world.seed, "firms")
    for number in range(FIRMS):
        tail = (number + number // len(words.FIRM_HEADS) * 3) % len(words.FIRM_TAILS)
        name = f"{words.FIRM_HEADS[number % len(words.FIRM_HEADS)]} {words.FIRM_TAILS[tail]}"
        state = words.ACCOUNT_STATES[number % len(words.ACCOUNT_STATES)]
        key = world.tables.add(
            "Account",
            Name=name,
            Industry=words.INDUSTRIES[tail],
            ShippingState=state,
            NumberOfEmployees=dice.between(4, 90) * 10,
            Phone=f"555-02{number:02d}",
            Description=f"{name} runs {dice.pick(words.USES)} with devices of {words.COMPANY}.",
        )
        contacts = tuple(_contact(world, key, name, number * CONTACTS_PER_FIRM + n) for n in range(CONTACTS_PER_FIRM))
        world.firms.append(Firm(key, name, state, contacts))


def _contact(world: World, account: str, firm: str, number: int) -> str:
    first, last = full_name(number, 11)
    address = f"{first}.{last}@{firm.replace(' ', '')}.example".lower()
    return world.tables.add("Contact", AccountId=account, FirstName=first, LastName=last, Email=address)


def _products(world: World) -> None:
    dice = Dice(world.seed, "products")
    tables = world.tables
    catalog = record_id("0ZS", 0)
    categories = {
        kind: tables.add("ProductCategory", Name=f"{kind.capitalize()}s", CatalogId=catalog)
        for kind in words.PRODUCT_KINDS
    }
    world.pricebook = tables.add(
        "Pricebook2",
        Name="List prices",
        Description="What everybody pays before discounts",
        IsActive=True,
        ValidFrom=datetime(2020, 1, 1),
        ValidTo=datetime(2029, 12, 31),
    )
    # Each product can be asked about once per fact, so many knowledge tasks need more products.
    count = max(PRODUCTS, -(-world.per_category // len(words.FACTS)))
    for number in range(count):
        kind = words.PRODUCT_KINDS[number % len(words.PRODUCT_KINDS)]
        head = words.PRODUCT_HEADS[number % len(words.PRODUCT_HEADS)]
        name = f"{head} {kind[0].upper()}{number + 11}"
        price = dice.between(12, 90) * 10
        key = tables.add(
            "Product2",
            Name=name,
            Description=f"A {kind} made for {dice.pick(words.USES)}.",
            External_ID__c=f"LK-{number + 1:04d}",
            IsActive=True,
        )
        tables.add("ProductCategoryProduct", ProductCategoryId=categories[kind], ProductId=key)
        entry = tables.add("PricebookEntry", Pricebook2Id=world.pricebook, Product2Id=key, UnitPrice=price)
        world.products.append(Product(key, entry, name, kind, price))
