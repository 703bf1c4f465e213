"""Limits of each caller, which hold for all assessors that share a directory, and what they are counted with."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from assessor_server import LOCAL, Caller, Told, gen3, served
from builtin_server import served as agent_served

from pytest_a2a_bench.assessor import admission
from pytest_a2a_bench.assessor.admission import Admission, Watch
from pytest_a2a_bench.assessor.server import Place
from pytest_a2a_bench.assessor.slots import Full, Slots
from pytest_a2a_bench.assessor.terms import Terms
from pytest_a2a_bench.results import assessments as records
from pytest_a2a_bench.results.assessments import Kept, Record

SAID = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "LOOK", 0.01)


def kept_of(results: Path, name: str, caller: str, **more: object) -> Record:
    record = dataclasses.replace(Record(name, caller, SAID, {}, submitted=time.time()), **more)  # type: ignore[arg-type]
    record.write(results / name)
    return record


async def heard(text: str) -> None:
    pass


class TestAdmission:
    def test_a_caller_has_no_more_running_on_three_than_on_one(self, tmp_path: Path) -> None:
        terms = Terms(tmp_path, at_once=8, per_caller=2)
        running: Counter[str] = Counter()
        most: Counter[str] = Counter()

        async def hold(here: Admission, name: str, caller: str) -> None:
            record = kept_of(tmp_path, name, caller)
            place = await here.take(record, again=False)
            held = await here.wait(record, place, heard)
            running[caller] += 1
            most[caller] = max(most[caller], running[caller])
            await asyncio.sleep(0.03)
            running[caller] -= 1
            held.concluded("completed", "").write(tmp_path / name)
            place.give_back()

        async def all_of_them() -> None:
            instances = [Admission(terms, Watch(Kept(tmp_path)), is_shared=True) for _ in range(3)]
            asked = [
                hold(here, f"{caller}-{number}-{turn}", caller)
                for turn in range(3)
                for number, here in enumerate(instances)
                for caller in ("ada", "bob")
            ]
            await asyncio.wait_for(asyncio.gather(*asked), 120)

        asyncio.run(all_of_them())
        assert most == {"ada": 2, "bob": 2}
        assert {record.state for record in Kept(tmp_path).all()} == {"completed"}

    def test_what_was_left_running_does_not_wait_for_itself(self, tmp_path: Path) -> None:
        """Two that a process left, and one only may run: both are taken up as waiting, and go on one by one."""
        terms = Terms(tmp_path, per_caller=1)

        async def both() -> list[str]:
            here = Admission(terms, Watch(Kept(tmp_path)), is_shared=True)
            left = [kept_of(tmp_path, name, "ada") for name in ("one", "two")]
            ended = []

            async def go_on(record: Record) -> None:
                place = await here.take(record, again=True)
                held = await here.wait(record, place, heard)
                held.concluded("completed", "").write(tmp_path / record.name)
                place.give_back()
                ended.append(record.name)

            await asyncio.wait_for(asyncio.gather(*map(go_on, left)), 60)
            return ended

        assert sorted(asyncio.run(both())) == ["one", "two"]

    def test_those_that_wait_elsewhere_count(self, tmp_path: Path) -> None:
        terms = Terms(tmp_path, per_caller=1, waiting=2)
        kept_of(tmp_path, "running", "ada", state="running", submitted=1.0)
        for name in ("first", "second"):
            kept_of(tmp_path, name, "ada", submitted=2.0)
        kept_of(tmp_path, "later", "ada", submitted=9e9)

        async def take(caller: str) -> None:
            here = Admission(terms, Watch(Kept(tmp_path)), is_shared=True)
            here.slots.note_elsewhere(Counter({"ada": 1}))
            await here.take(kept_of(tmp_path, f"of-{caller}", caller), again=False)

        asyncio.run(take("bob"))
        with pytest.raises(Full, match="2 of your assessments wait already"):
            asyncio.run(take("ada"))


class TestSlots:
    def test_a_place_that_steps_back_is_the_first_of_its_caller_again(self) -> None:
        slots = Slots(at_once=2, per_caller=2, waiting=9)
        first, second, third = (slots.take(name, "ada") for name in ("1", "2", "3"))
        assert (first.runs.is_set(), second.runs.is_set(), third.runs.is_set()) == (True, True, False)
        slots.note_elsewhere(Counter({"ada": 1}))
        second.step_back()
        assert (second.runs.is_set(), third.ahead) == (False, 1)
        other = slots.take("4", "bob")
        assert other.runs.is_set(), "it waits for nobody's limit"
        other.give_back()
        slots.note_elsewhere(Counter())
        assert (second.runs.is_set(), third.runs.is_set()) == (True, False)
        assert slots.names == {"1", "2", "3"}


class TestKept:
    def test_only_what_changed_is_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        read: list[str] = []
        real = records.RECORD.read

        def reading(path: Path) -> Record:
            read.append(path.parent.name)
            return real(path)

        class Reads:
            read = staticmethod(reading)

        monkeypatch.setattr(records, "RECORD", Reads)
        kept_of(tmp_path, "ended", "ada", submitted=1.0).concluded("completed", "all well").write(tmp_path / "ended")
        running = kept_of(tmp_path, "running", "ada", state="running", submitted=2.0)
        (tmp_path / "no-assessment").mkdir()
        (tmp_path / ".admission").mkdir()
        kept = Kept(tmp_path)
        assert [record.name for record in kept.all()] == ["running", "ended"]
        assert sorted(read) == ["ended", "running"]
        assert [record.message for record in kept.all()] == [SAID, {}]
        assert len(read) == 2, "nothing has changed"
        running.concluded("failed", "x").write(tmp_path / "running")
        assert [record.state for record in kept.all()] == ["failed", "completed"]
        assert read[2:] == ["running"]
        (tmp_path / "ended" / records.NAME).unlink()
        (tmp_path / "ended").rmdir()
        assert [record.name for record in kept.all()] == ["running"]

    def test_a_directory_that_is_not_there_has_none(self, tmp_path: Path) -> None:
        assert Kept(tmp_path / "nothing").all() == []

    def test_one_reading_serves_all_who_wait(self, tmp_path: Path) -> None:
        kept_of(tmp_path, "one", "ada")
        readings: list[int] = []

        class Counting(Kept):
            def all(self) -> list[Record]:
                readings.append(1)
                return super().all()

        async def hundred_viewers() -> None:
            watch = Watch(Counting(tmp_path))

            async def view() -> None:
                for _ in range(3):
                    assert [record.name for record in await watch.next()] == ["one"]

            await asyncio.wait_for(asyncio.gather(*(view() for _ in range(100))), 60)

        asyncio.run(hundred_viewers())
        assert len(readings) == 3


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Caller, Caller]]:
    terms = Terms(tmp_path / "results", guard=LOCAL, per_caller=1, waiting=1)
    place = Place(database=f"sqlite+aiosqlite:///{tmp_path}/shared.db")
    with served(terms, place=place) as first, served(terms, place=place) as second:
        yield Caller(first), Caller(second)


def asked(caller: Caller, request: object) -> tuple[threading.Thread, Told]:
    told = Told()
    thread = threading.Thread(target=caller.ask, args=(request,), kwargs={"told": told})
    thread.start()
    return thread, told


def wait_until_told(told: Told, what: str) -> None:
    deadline = time.monotonic() + 60
    while not any(what in text for _, text in told.updates):
        assert time.monotonic() < deadline, told
        time.sleep(0.02)


def test_over_the_wire_the_second_waits_for_the_first_and_the_third_is_refused(pair: tuple[Caller, Caller]) -> None:
    first, second = pair
    with agent_served("oracle?latency=30") as slow, agent_served("oracle") as quick:
        one, running = asked(first, gen3(slow.url, domain="mock", num_tasks=1, tag_trials=True))
        wait_until_told(running, "begun")
        request = gen3(quick.url, domain="mock", num_tasks=1, tag_trials=True)
        two, waiting = asked(second, request)
        wait_until_told(waiting, "waiting")
        third = first.ask(request)
        assert (third.state, "wait already" in third.text) == ("rejected", True), third
        assert second.get(waiting.task).state == "working"
        assert not any("begun" in text for _, text in waiting.updates)
        first.cancel(running.task)
        one.join(60)
        two.join(60)
    assert (waiting.state, waiting.result["score"]) == ("completed", 1)
