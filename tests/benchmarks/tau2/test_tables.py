"""Databases that copy what is looked at share nothing, and what was done to them is told as a hash tells it."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from one_test import in_one_test
from pydantic import BaseModel

from pytest_a2a_bench.benchmarks.tau2 import shortcuts


class Date(BaseModel):
    seats: dict[str, int]
    price: float = 1.0


class Flight(BaseModel):
    number: str
    dates: dict[str, Date]
    crew: list[str] = []
    note: str | None = None


class Database(BaseModel):
    flights: dict[str, Flight]
    few: dict[str, Flight] = {}
    today: Date


def made() -> dict[str, Any]:
    date = {"seats": {"economy": 5, "business": 2}, "price": 10.5}
    flight = {"dates": {f"2024-05-{day:02}": date for day in range(1, 13)}, "crew": ["a", "b"]}
    flights = {f"F{n}": {"number": f"F{n}", **flight} for n in range(12)}
    return {"flights": flights, "few": {"F0": flights["F0"]}, "today": date}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("data") / "db.json"
    found.write_text(json.dumps(made()))
    return found


def load(kind: type[Database], path: Path) -> Database:
    return kind.model_validate_json(Path(path).read_text())


def hashed(database: Any) -> str:
    # tau2's get_dict_hash, before it is hashed.
    return json.dumps(database.model_dump(), sort_keys=True, default=str)


LOOKS: dict[str, Callable[[Any], Any]] = {
    "[]": lambda t: t["F3"],
    "get": lambda t: t.get("F3"),
    "values": lambda t: list(t.values())[3],
    "items": lambda t: dict(t.items())["F3"],
    "setdefault": lambda t: t.setdefault("F3", None),
    "pop": lambda t: t.pop("F3"),
    "popitem": lambda t: t.popitem()[1],
    "dict": lambda t: dict(t)["F3"],
    "**": lambda t: {**t}["F3"],
    "|": lambda t: (t | {})["F3"],
    "| on the right": lambda t: ({} | t)["F3"],
    "update": lambda t: _updated(t)["F3"],
    "copy": lambda t: t.copy()["F3"],
    "copy.copy": lambda t: copy.copy(t)["F3"],
    "deepcopy": lambda t: copy.deepcopy(t)["F3"],
}


def _updated(table: Any) -> Any:
    found: dict[str, Any] = {}
    found.update(table)
    return found


@in_one_test("how", LOOKS)
def test_looking_at_a_table_shares_no_object(how: str, path: Path) -> None:
    before = hashed(load(Database, path))
    database = shortcuts.open_database(load, Database, path)
    flight = LOOKS[how](database.flights)
    assert flight.dates["2024-05-03"].seats["economy"] == 5
    flight.number, flight.note = "changed", "changed"
    flight.crew.append("c")
    flight.dates["2024-05-03"].seats["economy"] -= 5
    for date in flight.dates.values():
        date.price = 0.0
    database.few["F0"].crew.clear()
    database.today.seats.clear()
    assert hashed(shortcuts.open_database(load, Database, path)) == before
    assert hashed(database) != before


def test_a_record_that_is_not_there_is_none_to_remove(path: Path) -> None:
    flights = shortcuts.open_database(load, Database, path).flights
    assert isinstance(flights, shortcuts.Table)
    assert (flights.pop("F99", None), flights.pop("F99", 7), len(flights)) == (None, 7, 12)
    with pytest.raises(KeyError):
        flights.pop("F99")


def test_reading_alone_shares_and_changes_nothing_of_what_is_reported(path: Path) -> None:
    database = shortcuts.open_database(load, Database, path)
    read = shortcuts.only_reading(lambda: [flight.number for flight in database.flights.values()])
    assert read() == [f"F{n}" for n in range(12)]
    one = shortcuts.only_reading(lambda: database.flights["F1"])()
    assert one is not database.flights["F1"]
    assert one is database.flights.shared["F1"]  # type: ignore[attr-defined]


def test_a_file_that_changes_is_parsed_again(tmp_path: Path) -> None:
    place = tmp_path / "db.json"
    place.write_text(json.dumps(made()))
    first = shortcuts.open_database(load, Database, place)
    place.write_text(json.dumps({**made(), "today": {"seats": {}}}))
    second = shortcuts.open_database(load, Database, place)
    assert second.today.seats == {}
    assert shortcuts.describe_state(first) != shortcuts.describe_state(second)


NUMBERS = st.sampled_from([5, 5.0, True, 1, 1.0, 0, 0.0, -0.0, None, float("nan"), "5"])
FLIGHTS = st.sampled_from(["F0", "F1", "F2", "new"])
DAYS = st.sampled_from(["2024-05-01", "2024-05-02"])
DEEDS = st.lists(
    st.one_of(
        st.tuples(st.just("seats"), FLIGHTS, DAYS, NUMBERS),
        st.tuples(st.just("price"), FLIGHTS, DAYS, NUMBERS),
        st.tuples(st.just("note"), FLIGHTS, st.just(""), NUMBERS),
        st.tuples(st.just("drop date"), FLIGHTS, DAYS, st.none()),
        st.tuples(st.just("put"), FLIGHTS, st.just(""), st.none()),
        st.tuples(st.just("remove"), FLIGHTS, st.just(""), st.none()),
        st.tuples(st.just("look"), FLIGHTS, DAYS, st.none()),
        st.tuples(st.just("scan"), FLIGHTS, DAYS, st.none()),
        st.tuples(st.just("today"), FLIGHTS, DAYS, NUMBERS),
        st.tuples(st.just("few"), FLIGHTS, DAYS, NUMBERS),
    ),
    max_size=6,
)


def do(database: Any, deeds: list[tuple[str, str, str, Any]]) -> None:
    for what, key, day, value in deeds:
        flight = database.flights.get(key)
        if what == "put":
            database.flights[key] = Flight(number=key, dates={})
        elif what == "scan":
            assert all(flight.number for flight in database.flights.values())
        elif what == "today":
            database.today.price = value
        elif what == "few":
            database.few["F0"].note = value
        elif flight is not None:
            if what == "remove":
                del database.flights[key]
            elif what == "note":
                flight.note = value
            elif what == "drop date":
                flight.dates.pop(day, None)
            elif day in flight.dates:
                date = flight.dates[day]
                if what == "seats":
                    date.seats["economy"] = value
                elif what == "price":
                    date.price = value


@pytest.mark.slow
@given(one=DEEDS, other=DEEDS)
def test_the_same_is_reported_of_two_databases_exactly_if_their_hashes_are_the_same(
    path: Path, one: Any, other: Any
) -> None:
    left, right = (Database.model_validate(made()) for _ in range(2))
    ours = [shortcuts.open_database(load, Database, path) for _ in range(2)]
    for stock, own, deeds in ((left, ours[0], one), (right, ours[1], other)):
        do(stock, deeds)
        do(own, deeds)
        assert hashed(stock) == hashed(own)
    message = [shortcuts.describe_state(database) for database in ours]
    assert None not in message
    assert (message[0] == message[1]) == (hashed(left) == hashed(right))
    # Neither a hash nor a comparison knows an order of records.
    differing = {json.dumps(side, sort_keys=True) for side in shortcuts.dump_differing(*ours)}
    assert len(differing) == 1 or hashed(left) != hashed(right)
