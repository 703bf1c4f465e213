"""What breaks beside an assessment: a database that goes away, webhooks that hold us up, directories out of reach."""

import asyncio
import contextlib
import sqlite3
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from a2a.server.cluster.database_task_store import VersionedDatabaseTaskStore
from a2a.server.cluster.version import TaskVersion
from a2a.server.context import ServerCallContext
from a2a.types import Task, TaskPushNotificationConfig, TaskStatusUpdateEvent
from assessor_server import LOCAL, Caller, gen3, served

from pytest_a2a_bench.assessor import executor as executors
from pytest_a2a_bench.assessor import server
from pytest_a2a_bench.assessor import store as stores
from pytest_a2a_bench.assessor.assessment import Assessment
from pytest_a2a_bench.assessor.executor import AssessmentExecutor
from pytest_a2a_bench.assessor.monitoring import Monitor
from pytest_a2a_bench.assessor.server import ServerOptions
from pytest_a2a_bench.assessor.store import Stores, open_stores
from pytest_a2a_bench.assessor.terms import Terms
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.results import assessments as records
from pytest_a2a_bench.results.assessments import Record


def test_a_database_may_be_away_for_a_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, oracle_url: str) -> None:
    look, tries = Stores.look, []

    async def try_to_look(self: Stores, name: str, caller: str) -> Task | None:
        tries.append(name)
        if len(tries) <= 3:
            raise ConnectionRefusedError("the database is away")
        return await look(self, name, caller)

    monkeypatch.setattr(Stores, "look", try_to_look)
    place = ServerOptions(database=f"sqlite+aiosqlite:///{tmp_path}/shared.db")
    with served(Terms(tmp_path / "results", guard=LOCAL), place=place) as url:
        received = Caller(url).ask(gen3(oracle_url, domain="mock", num_tasks=1, tag_trials=True))
        while len(tries) <= 3:  # the last ones are about the end, which its caller has heard of
            time.sleep(0.02)
    assert (received.state, received.result["score"]) == ("completed", 1)


def test_a_broken_assessment_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, oracle_url: str) -> None:
    stopped: list[str] = []

    async def follow(*_: Any) -> None:
        raise RuntimeError("x")

    monkeypatch.setattr(AssessmentExecutor, "_follow", follow)
    stop = Assessment.stop

    def note(self: Assessment) -> None:
        stopped.append(self.name)
        stop(self)

    monkeypatch.setattr(Assessment, "stop", note)
    with served(Terms(tmp_path / "results", guard=LOCAL)) as url:
        received = Caller(url).ask(gen3(oracle_url, domain="mock", num_tasks=1))
        assert (received.state, "itself broke (RuntimeError)" in received.text) == ("failed", True), received
        assert stopped == [received.task]


@pytest.fixture
def name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An assessment that was interrupted, where interrupted ones are looked for all the time."""
    monkeypatch.setattr(server, "_LOOK_FOR_ORPHANS", 0.01)
    found = str(uuid.uuid4())
    said = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}
    Record(found, "", said, {}, state="running", submitted=1.0).write(tmp_path / found)
    return found


async def take_up(executor: Any, send: Callable[[str], None], done: asyncio.Event) -> None:
    """Look for what was interrupted until it is done.

    :param send: stands in for the message by which a task is taken up.
    """

    async def on_message_send(request: Any, context: Any) -> None:
        send(request.message.task_id)

    async def look(name: str, caller: str) -> None:
        raise AssertionError("nobody has to look")

    handler = cast(Any, SimpleNamespace(on_message_send=on_message_send))
    looking = asyncio.create_task(server._keep_taking_up(handler, executor, look))
    await asyncio.wait_for(done.wait(), 60)
    await asyncio.sleep(0.1)
    looking.cancel()


def test_nothing_ends_the_looking_for_what_was_interrupted(tmp_path: Path, name: str) -> None:
    claims: list[str] = []
    asked: list[str] = []
    kept, reads = records.Kept(tmp_path), []

    def read() -> Any:
        reads.append(tmp_path)
        if len(reads) == 1:
            raise OSError("the disk is away")
        return kept.all()

    def claim(name: str) -> bool:
        if name in claims:
            return False
        claims.append(name)
        return True

    async def run() -> None:
        done = asyncio.Event()

        def send(task: str) -> None:
            asked.append(task)
            if len(asked) == 1:
                raise ConnectionRefusedError("the database is away")
            done.set()

        executor = SimpleNamespace(
            terms=Terms(tmp_path), kept=SimpleNamespace(all=read), at_work=set(), idle=frozenset(),
            claim=claim, give_back=claims.remove,
        )  # fmt: skip
        await take_up(executor, send, done)

    asyncio.run(run())
    assert (asked, claims) == ([name, name], [name])


def test_a_task_taken_up_in_vain_is_taken_up_again(tmp_path: Path, name: str) -> None:
    """A message reaches the execution before, which ends without it: nobody is told, and the task has not ended."""
    asked: list[str] = []

    async def look(name: str, caller: str) -> None:
        return None

    async def run() -> None:
        done = asyncio.Event()

        def send(task: str) -> None:
            asked.append(task)
            if len(asked) == 3:
                executor.at_work.add(name)
                done.set()

        executor = AssessmentExecutor(Terms(tmp_path), Monitor(), look)
        await take_up(executor, send, done)
        assert executor.idle == frozenset()

    asyncio.run(run())
    assert asked == [name] * 3, "what is at work is left alone"


def test_writes_to_sqlite_come_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writing: list[int] = []

    async def save(self: Any, task: Task, **more: Any) -> TaskVersion:
        writing.append(1)
        assert len(writing) == 1, "two at once"
        await asyncio.sleep(0.001)
        writing.pop()
        return TaskVersion(1)

    async def run() -> None:
        stores = await open_stores(tmp_path)
        monkeypatch.setattr(VersionedDatabaseTaskStore, "save", save)
        context = ServerCallContext()
        saving = (stores.tasks.save(Task(), prev_version=TaskVersion.MISSING, context=context) for _ in range(20))
        await asyncio.gather(*saving)
        await stores.engine.dispose()

    asyncio.run(run())


def test_no_webhook_holds_up_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "SECONDS", 0.5)
    reached: list[str] = []
    answering: list[asyncio.Task[None]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
        reached.append(path)
        answering.append(cast("asyncio.Task[None]", asyncio.current_task()))
        begun = b"HTTP/1.1 200 OK\r\nX: " if path == "/headers" else b"HTTP/1.1 200 OK\r\n\r\n"
        writer.write(begun)
        try:
            while path != "/good":  # never long enough silent for a time limit between bytes
                await asyncio.sleep(0.02)
                writer.write(b"x")
                await writer.drain()
        except OSError:
            pass
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async def run() -> None:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as listening, httpx.AsyncClient() as client:
            base = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
            paths = ("headers", "body", "bad", "damaged", "good")
            configs = [TaskPushNotificationConfig(url=f"{base}/{path}") for path in paths]
            configs[2].token = "\u2603"  # which no header can have
            configs[3].tenant = "no JSON"  # so that nobody knows what to write

            async def kept(task: str) -> list[TaskPushNotificationConfig]:
                return configs

            store: Any = SimpleNamespace(get_info_for_dispatch=kept)
            sender = stores.WebhookSender(client, store, cast(Any, None))
            for _ in range(2):
                await sender.send_notification("t", TaskStatusUpdateEvent(task_id="t"))
            assert not reached, "an answer waited for a webhook"
            async with asyncio.timeout(60):
                while reached.count("/good") < 2:
                    await asyncio.sleep(0.01)
            await sender.aclose()
            await asyncio.gather(*answering)

    asyncio.run(run())
    # Those of one task in their order.
    assert reached == ["/headers", "/body", "/good"] * 2


def test_a_file_is_no_directory_of_results() -> None:
    with pytest.raises(ConfigurationError, match="it is a file; name a directory"):
        server._prepare(Terms(results=Path(__file__)))


def test_a_record_that_cannot_be_read_is_named_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / records.NAME).write_text("{")
    (tmp_path / "just-accepted").mkdir()
    kept = records.Kept(tmp_path)
    assert kept.all() == kept.all() == []
    (line,) = caplog.records
    assert (vars(line)["assessment"], "is not an assessment's file" in vars(line)["reason"]) == ("broken", True)


def test_tables_of_another_version_are_an_error_at_the_start(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / stores.NAME)) as database:
        database.execute("CREATE TABLE tasks (id TEXT)")
    with pytest.raises(ConfigurationError, match=r"the database .*tasks\.db cannot be used: no such column"):
        asyncio.run(open_stores(tmp_path))


def test_a_change_in_the_queue_makes_no_silence_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, waits, told = [0.0], list[float](), list[float]()

    async def wait(event: Any, timeout: float) -> None:
        event.close()
        waits.append(timeout)
        now[0] += min(10, timeout)
        if len(waits) == 3:
            raise asyncio.CancelledError

    async def tell(_: str) -> None:
        told.append(now[0])

    async def run() -> None:
        waiting = executors.Queue(Terms(tmp_path, at_once=0), records.Kept(tmp_path), is_shared=False)
        record = Record("a", "", {}, {}, submitted=0.0)
        await waiting.join(record, again=True)
        with pytest.raises(asyncio.CancelledError):
            await waiting.wait(record, tell)

    monkeypatch.setattr(executors, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(asyncio, "wait_for", wait)
    asyncio.run(run())
    assert (waits, told) == ([executors.SILENCE, executors.SILENCE - 10, executors.SILENCE], [0.0, executors.SILENCE])
