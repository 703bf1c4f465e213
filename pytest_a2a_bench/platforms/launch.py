"""Everything of one assessment by one command: assessor and agent are started, asked, followed, and stopped."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import shlex
import socket
import sys
import urllib.parse
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest_a2a_bench
from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig, Credentials
from pytest_a2a_bench.a2a.network import Network
from pytest_a2a_bench.agents.launcher import require_server
from pytest_a2a_bench.agents.options import parse_spec
from pytest_a2a_bench.errors import A2ABenchError, ConfigurationError, InfrastructureError
from pytest_a2a_bench.platforms.follow import Followed, Follower
from pytest_a2a_bench.platforms.process import HOST, GuardedProcess, Kept, free_port
from pytest_a2a_bench.platforms.remote import reset_agent
from pytest_a2a_bench.platforms.scenario import Party
from pytest_a2a_bench.redact import one_line, redact_url
from pytest_a2a_bench.secret import Secret
from pytest_a2a_bench.settings import BUILTIN_PREFIX, Settings

_BOOTSTRAP = (
    "import sys; sys.path.append(sys.argv.pop(1)); from pytest_a2a_bench.cli.main import main; sys.exit(main())"
)
_ROOT = str(Path(pytest_a2a_bench.__file__).parent.parent)
_READ_SECONDS = 900.0
_ENDLESS = 7 * 86400.0


class StartError(InfrastructureError):
    """What was to be started ended, or did not answer in time."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What is to be launched.

    :param green: the assessor; with ``command`` it is started, without it runs already. With ``controller`` the
        endpoint is that of a controller.
    :param participants: the agents, likewise.
    :param config: what is asked for, as the assessor takes it.
    :param token: what the assessor wants to be shown; ``controller_token`` what controllers do.
    :param start_seconds: for each of them to answer.
    :param seconds: for the assessment; None for any time.
    :param say: called with each line of progress.
    :param echo: called with each line that a started process writes.
    """

    green: Place
    participants: tuple[Place, ...]
    config: Mapping[str, Any]
    say: Callable[[str], None]
    echo: Callable[[str], None] | None = None
    token: Credentials | None = None
    controller_token: Secret | None = None
    start_seconds: float = 120.0
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where one party is, and how it comes to be there.

    :param role: what the request calls it.
    :param url: of the party or its controller; empty where it is started.
    :param command: what starts it.
    :param builtin: the name of a built-in agent that the command starts.
    :param port: where what is started has to listen.
    """

    role: str
    url: str = ""
    command: tuple[str, ...] = ()
    builtin: str = ""
    port: int = 0
    is_controller: bool = False

    @classmethod
    def of(cls, role: str, what: str, port: int, *, option: str) -> Place:
        """Read where a party is: ``builtin:NAME``, a URL, or a command line.

        :param option: what it was given by, for messages.
        :raises ConfigurationError: if it is none of them.
        """
        if what.startswith(BUILTIN_PREFIX):
            agent = parse_spec(what.removeprefix(BUILTIN_PREFIX))
            require_server(f"the built-in agent {agent.name!r}")
            agent = dataclasses.replace(agent, port=agent.port or port or free_port())
            return cls(role, command=_own("agent", *agent.to_argv()), builtin=agent.name, port=agent.port)
        if what.startswith(("http://", "https://")):
            return cls(role, url=what)
        return cls(role, command=_split(what, option), port=port)

    @classmethod
    def of_party(cls, party: Party) -> Place:
        """Return where a scenario says that a party is."""
        parts = urllib.parse.urlsplit(party.endpoint)
        if not party.command:
            return cls(party.role, url=party.endpoint)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return cls(party.role, url=party.endpoint, command=_split(party.command, f"{party.role}: cmd"), port=port)


def _split(command: str, option: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise ConfigurationError(f"{option} {command!r} is no command line: {error}") from error
    if not words:
        raise ConfigurationError(f"{option} is empty; give builtin:NAME, a URL, or a command")
    return words


def own_assessor(port: int, arguments: tuple[str, ...]) -> Place:
    """Return the assessor of this package, to be started."""
    return Place("green_agent", command=_own("assess", "--port", "{port}", *arguments), port=port)


def _own(*arguments: str) -> tuple[str, ...]:
    """Return the command line of a command of this package."""
    return (sys.executable, "-P", "-c", _BOOTSTRAP, _ROOT, *arguments)


async def launch(wanted: Launch) -> Followed:
    """Do it.

    :raises ConfigurationError: if a port is taken, or a spec is wrong.
    :raises InfrastructureError: if something does not start, cannot be reached, or takes too long.
    """
    async with contextlib.AsyncExitStack() as stack:
        parties = (wanted.green, *wanted.participants)
        # All at once: each may import for seconds.
        green, *urls = await _all([stack.enter_async_context(_present(party, wanted)) for party in parties])
        participants = {party.role: url for party, url in zip(wanted.participants, urls, strict=True)}
        request = json.dumps({"participants": participants, "config": dict(wanted.config)})
        wanted.say(", ".join(f"{role} {redact_url(url)}" for role, url in {"assessor": green, **participants}.items()))
        return await _ask(green, request, wanted)


async def _all(works: Sequence[Coroutine[Any, Any, str]]) -> list[str]:
    """Do several things at once. Where one fails, the others have ended, too, when its exception is raised."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        failed = next((task for task in tasks if task.done() and task.exception()), None)
        return [failed.result()] if failed else [task.result() for task in tasks]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _ask(green: str, request: str, wanted: Launch) -> Followed:
    connection = _connection(green, auth=wanted.token, timeout=_ENDLESS, read_timeout=_READ_SECONDS)
    follower = Follower(connection, wanted.say)
    try:
        async with asyncio.timeout(wanted.seconds):
            return await follower.follow(request)
    except TimeoutError:
        await follower.cancel()
        raise InfrastructureError(
            f"the assessment took more than {wanted.seconds:g} s and was canceled; raise --timeout, or ask for less"
        ) from None
    except asyncio.CancelledError:
        # A hosted assessor would go on, and spend.
        await follower.cancel()
        raise
    finally:
        await connection.aclose()


@contextlib.asynccontextmanager
async def _present(place: Place, wanted: Launch) -> AsyncIterator[str]:
    """See that a party is there as long as the context lasts; yield its URL."""
    if place.is_controller:
        wanted.say(f"{place.role}: resetting the agent of the controller {redact_url(place.url)}")
        yield await reset_agent(place.url, wanted.controller_token, wanted.start_seconds)
    elif place.command:
        async with _started(place, wanted) as url:
            yield url
    else:
        await _until_ready(place.url, wanted.start_seconds)
        yield place.url


@contextlib.asynccontextmanager
async def _started(place: Place, wanted: Launch) -> AsyncIterator[str]:
    port = place.port or free_port()
    _see_that_it_is_free(place.role, port)
    url = place.url or f"http://{HOST}:{port}"
    command = tuple(word.replace("{port}", str(port)).replace("{host}", HOST) for word in place.command)
    where = {"HOST": HOST, "AGENT_PORT": str(port), "AGENT_URL": url}
    process = GuardedProcess(Kept(command, _environment(), echo=wanted.echo), where)
    try:
        await _until_it_answers(place.role, process, url, wanted.start_seconds)
        yield url
    finally:
        await process.stop()


def _environment() -> dict[str, str]:
    """Return our environment, with the programs of our own virtual environment first."""
    programs = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": os.pathsep.join(filter(None, [programs, os.environ.get("PATH", "")]))}


def _see_that_it_is_free(role: str, port: int) -> None:
    """Refuse a port that somebody listens on: it would be them whom we ask."""
    try:
        socket.create_server((HOST, port)).close()
    except OSError as error:
        raise ConfigurationError(
            f"{role}: port {port} of {HOST} is not free ({error.strerror}); choose another, or 0 for any free one"
        ) from error


async def _until_it_answers(role: str, process: GuardedProcess, url: str, seconds: float) -> None:
    ready = asyncio.ensure_future(_until_ready(url, seconds))
    ended = asyncio.ensure_future(process.wait())
    try:
        await asyncio.wait({ready, ended}, return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            raise StartError(f"{role} ended with exit code {ended.result()} at its start{_said(process)}")
        try:
            ready.result()
        except A2ABenchError as error:
            raise StartError(f"{role} did not answer at {redact_url(url)}: {error}{_said(process)}") from error
    finally:
        for task in (ready, ended):
            task.cancel()
        await asyncio.gather(ready, ended, return_exceptions=True)


def _said(process: GuardedProcess) -> str:
    said = process.stderr.text().strip() or process.stdout.text().strip()
    return f": {one_line(said[-600:], 600)}" if said else ", and wrote nothing"


async def _until_ready(url: str, seconds: float) -> None:
    connection = _connection(url)
    try:
        await connection.await_until_ready(seconds)
    finally:
        await connection.aclose()


def _connection(url: str, **settings: Any) -> AgentConnection:
    """Return a connection with the authorities and proxies of the environment."""
    network = Network.from_settings(Settings(), os.environ)
    return AgentConnection(ClientConfig(endpoint=url, network=network, **settings))
