"""One assessment: start the assessor and the agents, send the request, follow it to its end, stop what was started; and
files for AgentBeats' leaderboards, which DuckDB reads by ``read_json_auto('results/*.json')``.

Each file is ``{"participants": {ROLE: ID}, "results": [...]}`` with one object for each benchmark and domain, as in the
assessor's artifact.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
import time
import urllib.parse
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, cast

import httpx

from pytest_a2a_bench.a2a import loop
from pytest_a2a_bench.a2a.bodies import Meter
from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.codec import InEvent, InTask, OutMessage, StatusUpdate
from pytest_a2a_bench.a2a.config import ClientConfig, Credentials
from pytest_a2a_bench.a2a.network import Network
from pytest_a2a_bench.a2a.requests import RequestRecord, Wire
from pytest_a2a_bench.a2a.transport import open_client
from pytest_a2a_bench.a2a.turn import Turn
from pytest_a2a_bench.assessor.assessment import Concluded
from pytest_a2a_bench.assessor.request import Evaluation, Request
from pytest_a2a_bench.assessor.result import data
from pytest_a2a_bench.assessor.terms import Plan
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import (
    A2ABenchError,
    AuthenticationError,
    ConfigurationError,
    InfrastructureError,
    ProtocolError,
    TransportError,
)
from pytest_a2a_bench.model import Part, TrialKey, TrialResult
from pytest_a2a_bench.model.messages import LARGEST, Bounds
from pytest_a2a_bench.platforms.process import HOST, Command, Party, Process, free_port
from pytest_a2a_bench.redact import Secret, redact_url
from pytest_a2a_bench.results.manifest import CHOSEN, SelectedResults
from pytest_a2a_bench.results.stats import count, spans
from pytest_a2a_bench.text import one_line, refusing, sanitise, waiting_for

START_SECONDS = 120.0
"""For a process that is started to answer."""

_PATIENCE = 300.0
"""Seconds for which the assessor may be out of reach while it works: as long as it may take to be started again."""

_POLL_SECONDS = 2.0
_CANCEL_SECONDS = 15.0
_READ_SECONDS = 900.0
_ADVICE = "name the variable that holds the assessor's token with --assessor-auth-env"
_MAX_ANSWER = 8 * 1024 * 1024


T = TypeVar("T")


class ControllerError(InfrastructureError):
    """A controller cannot be reached, is none, or its agent does not come up."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """An assessment.

    :param config: the request's ``config``.
    :param say: called with each line of progress.
    :param token: bearer token for the assessor; ``controller_token`` for controllers.
    :param start_seconds: for each party to answer; None for one try where it is said to run already, and
        :data:`START_SECONDS` where it is started.
    :param seconds: for the assessment.
    :param echo: called with each line that a started process writes.
    """

    assessor: Party
    agents: tuple[Party, ...]
    config: Mapping[str, Any]
    say: Callable[[str], None]
    token: Credentials | None = None
    controller_token: Secret | None = None
    start_seconds: float | None = None
    seconds: float | None = None
    echo: Callable[[str], None] | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of an assessment.

    :param state: of the assessor's A2A task; ``completed`` where it answered with a message.
    :param texts: text parts of the result.
    :param data: JSON objects of the result, in order.
    :param task_id: id of that A2A task.
    """

    state: str
    texts: tuple[str, ...]
    data: tuple[dict[str, Any], ...]
    task_id: str | None = None

    @property
    def errors(self) -> int:
        """How many trials or checks could not be evaluated, as far as the result says."""
        found = [one["errors"].get("count") for one in self.data if isinstance(one.get("errors"), dict)]
        return sum(int(number) for number in found if isinstance(number, int | float))

    @property
    def is_good(self) -> bool:
        """Whether there is a result in which every trial could be evaluated."""
        return self.state == "completed" and bool(self.data or self.texts) and not self.errors


async def assess(wanted: Wanted) -> Outcome:
    """Run an assessment.

    :raises ConfigurationError: if a port is taken.
    :raises InfrastructureError: if a party does not start, or cannot be reached.
    """
    async with contextlib.AsyncExitStack() as stack:
        parties = (wanted.assessor, *wanted.agents)
        # Before anything is started: an address at which nothing answers is reported at once.
        there = [party for party in parties if not party.words and not party.is_controller]
        await _all([_await_answer(party.title, party.url, wanted.start_seconds or 0.0) for party in there])
        # All at once: each may import for seconds.
        assessor, *urls = await _all([stack.enter_async_context(_running(party, wanted)) for party in parties])
        agents = {party.role: url for party, url in zip(wanted.agents, urls, strict=True)}
        wanted.say(", ".join(f"{role} {redact_url(url)}" for role, url in {"assessor": assessor, **agents}.items()))
        connection = _connection(
            assessor, auth=wanted.token, token_advice=_ADVICE, timeout=7 * 86400.0, read_timeout=_READ_SECONDS
        )
        request = _Request(connection, wanted.say)
        try:
            async with asyncio.timeout(wanted.seconds):
                text = json.dumps({"participants": agents, "config": dict(wanted.config)})
                return await loop.bridge(request.follow(text))
        except TimeoutError:
            await request.cancel()
            late = f"the assessment took more than {wanted.seconds:g} s and was canceled"
            wanted.say(f"{late}; raise --max-seconds, or ask for less")
            return request.canceled
        except asyncio.CancelledError:
            # An assessor elsewhere would go on, and spend.
            await request.cancel()
            raise
        finally:
            await connection.aclose()


async def _all(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Do several things at once. If one fails, the others have ended, too, when its exception is raised."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


# --- parties ----------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _running(party: Party, wanted: Wanted) -> AsyncIterator[str]:
    """Have a party run as long as the context lasts; give its URL."""
    if party.is_controller:
        wanted.say(f"{party.title}: resetting the agent of the controller {redact_url(party.url)}")
        yield await reset_agent(party.url, wanted.controller_token, wanted.start_seconds or START_SECONDS)
    elif not party.words:
        yield party.url
    else:
        url = party.url or f"http://{HOST}:{free_port()}"
        port = urllib.parse.urlsplit(url).port or (443 if url.startswith("https:") else 80)
        _check_free(party.title, port)
        process = Process(Command(party.words, _environment(), echo=wanted.echo), port, url)
        try:
            await _await_start(party.title, process, url, wanted.start_seconds or START_SECONDS)
            yield url
        finally:
            await process.stop()


def _environment() -> dict[str, str]:
    """Return this environment, with the programs of this virtual environment first."""
    programs = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": os.pathsep.join(filter(None, [programs, os.environ.get("PATH", "")]))}


def _check_free(role: str, port: int) -> None:
    """Refuse a port on which another server listens, which would be asked in place of the party."""
    with refusing(f"{role}: port {port} of {HOST} is not free"):
        socket.create_server((HOST, port)).close()


async def _await_start(role: str, process: Process, url: str, seconds: float) -> None:
    ready = asyncio.ensure_future(_await_answer(role, url, seconds))
    ended = asyncio.ensure_future(process.wait())
    try:
        await asyncio.wait({ready, ended}, return_when=asyncio.FIRST_COMPLETED)
        written = process.stderr.text().strip() or process.stdout.text().strip()
        written = f": {one_line(written[-600:], 600)}" if written else ", and wrote nothing"
        if ended.done():
            raise InfrastructureError(f"{role} ended with exit code {ended.result()} at its start{written}")
        try:
            ready.result()
        except A2ABenchError as error:
            raise InfrastructureError(f"{error}{written}") from error
    finally:
        for task in (ready, ended):
            task.cancel()
        await asyncio.gather(ready, ended, return_exceptions=True)


async def _await_answer(role: str, url: str, seconds: float) -> None:
    connection = _connection(url)
    try:
        with waiting_for(f"{role} to answer at {redact_url(url)}"):
            await connection.await_until_ready(seconds)
    except TransportError as error:
        waited = f" within {seconds:g} s" if seconds else ""
        reason = error.__cause__ or error
        said = one_line(str(reason)) or "it accepts connections and sends no card"
        raise InfrastructureError(
            f"{role}: nothing answers at {redact_url(url)}{waited} ({type(reason).__name__}: {said}); "
            "start it first, or wait for it with --start-timeout SECONDS"
        ) from error
    finally:
        await connection.aclose()


def _connection(url: str, **settings: Any) -> AgentConnection:
    """Return a connection with the certificate authorities and proxies of the environment."""
    network = Network.from_settings(Settings(), os.environ)
    return AgentConnection(ClientConfig(endpoint=url, network=network, **settings))


async def reset_agent(controller: str, token: Secret | None, seconds: float) -> str:
    """Reset the first agent of a controller, as AgentBeats does before each assessment, and return its URL.

    :param seconds: for the agent to be running again.
    :raises ControllerError: if it does not.
    """
    base = controller.rstrip("/")
    async with open_client(Network.from_settings(Settings(), os.environ), timeout=10.0) as client:
        client.headers.update({"Authorization": f"Bearer {token.reveal()}"} if token else {})
        agents = await _ask(client, "GET", f"{base}/agents")
        if not agents:
            raise ControllerError(f"the controller at {redact_url(base)} keeps no agent")
        name = urllib.parse.quote(str(next(iter(agents))), safe="")
        await _ask(client, "POST", f"{base}/agents/{name}/reset")
        deadline = time.monotonic() + seconds
        while True:
            try:
                agent = await _ask(client, "GET", f"{base}/agents/{name}")
            except ControllerError:
                # AgentBeats' own answer with 500 at moments of a reset.
                if time.monotonic() > deadline:
                    raise
                agent = {}
            state = str(agent.get("state", "in no known state"))
            if state == "running":
                return f"{base}/to_agent/{name}"
            if state.startswith("finished") or time.monotonic() > deadline:
                written = one_line(str(agent.get("stderr_log") or "").strip()[-300:])
                raise ControllerError(
                    f"the agent of the controller at {redact_url(base)} is {one_line(state, 60)} after its reset"
                    + (f", saying {written!r}" if written else "")
                )
            await asyncio.sleep(0.5)


async def _ask(client: httpx.AsyncClient, method: str, url: str) -> dict[str, Any]:
    where = f"{method} {redact_url(url)}"
    try:
        answer = await client.request(method, url)
        found = answer.json() if answer.status_code == 200 and len(answer.content) <= _MAX_ANSWER else None
    except httpx.HTTPError as error:
        raise ControllerError(f"{where}: {type(error).__name__}: {error}") from error
    except ValueError:
        found = None
    if not isinstance(found, dict):
        advice = "; name the variable with its token by --controller-auth-env" if answer.status_code == 401 else ""
        raise ControllerError(f"{where}: HTTP {answer.status_code} {one_line(answer.text, 120)}{advice}")
    return found


# --- the request ------------------------------------------------------------------------------------------------------


class _Request:
    """One request to the assessor, followed by its stream, or by polling where that ends early."""

    def __init__(self, connection: AgentConnection, say: Callable[[str], None]) -> None:
        self._connection, self._say = connection, say
        self._turn = Turn()
        self._said = ""
        # Updates of hours may be more than the reply of an agent is allowed to be.
        self._meter = Meter(Bounds.of(LARGEST))

    async def follow(self, request: str) -> Outcome:
        """Send a request as text, and wait for its end; runs on the loop of connections.

        :raises InfrastructureError: if the assessor cannot be reached, refuses the request, or is out of reach too
            long.
        """
        wire = await self._connection.wire()
        card = await self._connection.acard()
        message = OutMessage(uuid.uuid4().hex, (Part.of_text(request),))
        try:
            async with contextlib.aclosing(wire.send(message, self._record(wire), stream=card.streaming)) as events:
                async for event in events:
                    self._take(event)
                    if self._turn.settled:
                        break
        except InfrastructureError as error:
            if self._turn.task_id is None or isinstance(error, AuthenticationError | ProtocolError):
                raise
            self._say(f"the stream broke off ({error}); polling from now on")
        if self._turn.task_id is not None and (not self._turn.settled or self._turn.lacks_answer):
            await self._poll(wire, self._turn.task_id)
        return self._outcome()

    @property
    def canceled(self) -> Outcome:
        """The end of a request that was canceled."""
        return Outcome("canceled", (), (), self._turn.task_id)

    async def cancel(self) -> None:
        """Have the assessor cancel its task. Never raises, and takes :data:`_CANCEL_SECONDS` at most."""

        async def cancel_task(task_id: str) -> None:
            async with asyncio.timeout(_CANCEL_SECONDS):
                wire = await self._connection.wire()
                await wire.cancel_task(task_id, self._record(wire))

        if self._turn.task_id is not None and not self._turn.settled:
            with contextlib.suppress(Exception):
                await loop.bridge(cancel_task(self._turn.task_id))

    async def _poll(self, wire: Wire, task_id: str) -> None:
        heard = time.monotonic()
        while True:
            try:
                self._take(await wire.get_task(task_id, self._record(wire)))
                heard = time.monotonic()
            except InfrastructureError as error:
                is_lost = time.monotonic() - heard > _PATIENCE
                if is_lost or isinstance(error, AuthenticationError | ProtocolError):
                    raise
            if self._turn.settled:
                return
            await asyncio.sleep(_POLL_SECONDS)

    def _record(self, wire: Wire) -> RequestRecord:
        return RequestRecord(uuid.uuid4().hex, wire.interface.url, meter=self._meter)

    def _take(self, event: InEvent) -> None:
        self._turn.feed(event)
        if not isinstance(event, InTask | StatusUpdate) or event.state is None or self._turn.settled:
            return
        line = ": ".join(filter(None, [event.state, self._turn.status_text()]))
        if line != self._said:
            self._say(sanitise(line))
        self._said = line

    def _outcome(self) -> Outcome:
        reply = self._turn.reply()
        parts = [part for found in self._turn.artifacts.values() for part in found] or list(reply.parts)
        texts = tuple(sanitise(p.text) for p in parts if p.kind == "text" and _object(p.text) is None and p.text)
        state = reply.state or ("completed" if reply.kind == "message" else "unknown")
        outcome = Outcome(state, texts, tuple(_objects(parts)), self._turn.task_id)
        # The reason of a failure is in the status.
        reason = sanitise(self._turn.status_text())
        return (
            replace(outcome, texts=(reason, *texts)) if state != "completed" and reason not in ("", *texts) else outcome
        )


def _objects(parts: Iterable[Part]) -> Iterator[dict[str, Any]]:
    for part in parts:
        found = part.data if part.kind == "data" else _object(part.text) if part.kind == "text" else None
        if isinstance(found, dict):
            yield found


def _object(text: str) -> dict[str, Any] | None:
    """Return the JSON object that a text is: some assessors write their result so."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


ROLE = "agent"


def make_file(participants: Mapping[str, str], results: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a file's content.

    :param participants: role of each agent -> its id on the leaderboard.
    """
    return {"participants": dict(participants), "results": [dict(one) for one in results]}


def export(
    selected: SelectedResults, domain: str | None, allow_incomplete: bool, participants: Mapping[str, str]
) -> tuple[dict[str, Any], list[str]]:
    """Return a file's content for a run, with one object for each domain, and a line about each of them.

    :param domain: only this one.
    :param allow_incomplete: count trials that are missing as not passed, instead of refusing.
    :raises ConfigurationError: if there are no trials, or some are missing.
    """
    if selected.manifest.named and not allow_incomplete:
        raise ConfigurationError(f"these {CHOSEN}; run all of them, or pass --allow-incomplete")
    absent = [TrialResult(TrialKey.parse(key), "not_run") for key in selected.absent]
    groups: dict[tuple[str, str], list[TrialResult]] = {}
    for result in (*selected.results, *absent):
        if domain in (None, result.key.domain):
            groups.setdefault((result.key.suite, result.key.domain), []).append(result)
    if not groups:
        there = ", ".join(sorted({result.key.domain for result in selected.results}))
        raise ConfigurationError(f"these results have no trials of the domain {domain!r}; there are: {there}")
    whole = [result for group in groups.values() for result in group]
    missing = [str(result.key) for result in whole if result.status == "not_run"]
    if missing and not allow_incomplete:
        raise ConfigurationError(
            f"{len(missing)} of {count(len(whole), 'trial')} have no result ({', '.join(missing[:5])}); run pytest "
            "again with --a2a-resume, or pass --allow-incomplete to count them as not passed"
        )
    entries = [data(_concluded(selected, *key, found)) for key, found in groups.items()]
    lines = [
        f"{one['domain']}: {one['score']:g} of {one['max_score']}, {count(one['errors']['count'], 'error')}"
        for one in entries
    ]
    return make_file(participants, entries), lines


def _concluded(selected: SelectedResults, suite: str, domain: str, results: Sequence[TrialResult]) -> Concluded:
    # Not validated: a benchmark of the user's own has its own name.
    request = Request.model_construct(agent="", form="agentbeats", evaluation=cast(Evaluation, suite), domain=domain)
    keys = tuple(result.key for result in results)
    agent, interface = selected.manifest.card
    return Concluded(
        plan=Plan(request, Settings(shard=selected.manifest.shard), keys),
        agent=agent,
        interface=interface,
        results=tuple(results),
        seconds=_seconds(results),
        run_id=selected.manifest.run_id,
    )


def _seconds(results: Sequence[TrialResult]) -> float:
    """Return the seconds from the start of the first trial to the end of the last."""
    times = list(spans(results))
    return max(end for _, end in times) - min(began for began, _ in times) if times else 0.0
