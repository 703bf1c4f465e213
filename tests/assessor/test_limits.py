"""Limits of each caller, which hold for all assessors that share a directory, and what they are counted with."""

import asyncio
import dataclasses
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from assessor_server import LOCAL, Caller, asking, gen3, served
from builtin_server import served as agent_served

from pytest_a2a_bench.assessor.executor import Queue
from pytest_a2a_bench.assessor.request import BadRequest
from pytest_a2a_bench.assessor.server import ServerOptions
from pytest_a2a_bench.assessor.terms import Terms
from pytest_a2a_bench.results import assessments as records
from pytest_a2a_bench.results.assessments import Kept, Record

SAID = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}


def kept_of(results: Path, name: str, caller: str, **more: object) -> Record:
    record = dataclasses.replace(Record(name, caller, SAID, {}, submitted=time.time()), **more)  # type: ignore[arg-type]
    record.write(results / name)
    return record


async def heard(text: str) -> None:
    pass


class TestQueue:
    def test_a_caller_has_no_more_running_on_three_than_on_one(self, tmp_path: Path) -> None:
        terms = Terms(tmp_path, at_once=8, per_caller=2)
        running: Counter[str] = Counter()
        most: Counter[str] = Counter()
        ended: Counter[str] = Counter()

        async def hold(here: Queue, name: str, caller: str) -> None:
            record = kept_of(tmp_path, name, caller)
            await here.join(record, again=False)
            held = await here.wait(record, heard)
            running[caller] += 1
            most[caller] = max(most[caller], running[caller])
            while running[caller] < 2 and ended[caller] < 8:  # the last one runs alone
                await asyncio.sleep(0.01)
            running[caller] -= 1
            ended[caller] += 1
            held.concluded("completed", "").write(tmp_path / name)
            here.leave(record)

        async def all_of_them() -> None:
            instances = [Queue(terms, Kept(tmp_path), is_shared=True) for _ in range(3)]
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

    def test_a_resumed_assessment_does_not_wait_for_itself(self, tmp_path: Path) -> None:
        """Two that a process left, and one only may run: both are taken up as waiting, and go on one by one."""
        terms = Terms(tmp_path, per_caller=1)

        async def both() -> list[str]:
            here = Queue(terms, Kept(tmp_path), is_shared=True)
            left = [kept_of(tmp_path, name, "ada") for name in ("one", "two")]
            ended = []

            async def go_on(record: Record) -> None:
                await here.join(record, again=True)
                held = await here.wait(record, heard)
                held.concluded("completed", "").write(tmp_path / record.name)
                here.leave(record)
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

        async def join(caller: str) -> None:
            here = Queue(terms, Kept(tmp_path), is_shared=True)
            here._note(Kept(tmp_path).all())
            await here.join(kept_of(tmp_path, f"of-{caller}", caller), again=False)

        asyncio.run(join("bob"))
        with pytest.raises(BadRequest, match="2 of your assessments wait already"):
            asyncio.run(join("ada"))

    def test_one_that_steps_back_is_its_callers_first(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Others run meanwhile, if they are of another caller."""
        began: list[str] = []
        refusals = [[dataclasses.replace(kept_of(tmp_path, "x", "ada"), state="running")]]
        monkeypatch.setattr(Queue, "_permit", lambda *_: refusals.pop() if refusals else None)

        async def run(here: Queue, record: Record) -> None:
            await here.wait(record, heard)
            began.append(record.name)

        async def all_of_them() -> None:
            here = Queue(Terms(tmp_path, at_once=2, per_caller=1), Kept(tmp_path), is_shared=True)
            asked = [kept_of(tmp_path, name, caller) for name, caller in (("1", "ada"), ("2", "ada"), ("3", "bob"))]
            for record in asked:
                await here.join(record, again=True)
            tasks = [asyncio.create_task(run(here, record)) for record in asked]
            while len(began) < 1:
                await asyncio.sleep(0.01)
            assert (began, list(here.waiting), here.running) == (["3"], ["1", "2"], {"3": "bob"})
            (tmp_path / "x" / records.NAME).unlink()
            here._note([])
            while len(began) < 2:
                await asyncio.sleep(0.01)
            here.leave(asked[0])
            await asyncio.wait_for(asyncio.gather(*tasks), 60)

        asyncio.run(all_of_them())
        assert began == ["3", "1", "2"]


class TestKept:
    def test_only_what_changed_is_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        read: list[str] = []
        real = records.RECORD.read

        def reading(path: Path) -> Record:
            read.append(path.parent.name)
            return real(path)

        monkeypatch.setattr(records, "RECORD", SimpleNamespace(read=reading, to_json=records.RECORD.to_json))
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


def test_over_the_wire_the_second_waits_for_the_first_and_the_third_is_refused(tmp_path: Path) -> None:
    terms = Terms(tmp_path / "results", guard=LOCAL, per_caller=1, waiting=1)
    place = ServerOptions(database=f"sqlite+aiosqlite:///{tmp_path}/shared.db")
    with (
        served(terms, place=place) as one,
        served(terms, place=place) as other,
        agent_served("oracle?latency=30") as slow,
        agent_served("oracle") as quick,
    ):
        first, second = Caller(one), Caller(other)
        request = gen3(quick.url, domain="mock", num_tasks=1, tag_trials=True)
        with asking(first, gen3(slow.url, domain="mock", num_tasks=1, tag_trials=True)) as running:
            with asking(second, request, until="waiting") as waiting:
                third = first.ask(request)
                assert (third.state, "wait already" in third.text) == ("rejected", True), third
                assert second.get(waiting.task).state == "working"
                assert not any("begun" in text for _, text in waiting.updates)
                first.cancel(running.task)
    assert (waiting.state, waiting.result["score"]) == ("completed", 1)
