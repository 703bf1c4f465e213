"""Serve the ADK agent over A2A: ADK's ``to_a2a`` with our card, and sessions and tasks that survive a restart."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from a2a.server.tasks import DatabaseTaskStore
from google.adk.a2a.utils.agent_to_a2a import to_a2a
from google.adk.agents import BaseAgent
from google.adk.runners import Runner
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from sqlalchemy.ext.asyncio import create_async_engine
from starlette.applications import Starlette
from starlette.types import ASGIApp

from pytest_a2a_bench.adk.folder import card_of
from pytest_a2a_bench.adk.runs import Runs
from pytest_a2a_bench.agents.gateway import bounded, called_by_name, guarded
from pytest_a2a_bench.assessor.terms import Callers
from pytest_a2a_bench.listener import listen, local_url
from pytest_a2a_bench.quiet_server import serving
from pytest_a2a_bench.text import refusing

SESSIONS = "sessions.db"
TASKS = "a2a-tasks.db"

_GRACE = 2


def make_runner(agent: BaseAgent, results: Path) -> Runner:
    """Return ADK's runner of an agent; its sessions are in a file beside the results.

    :raises ConfigurationError: if the directory cannot be written.
    """
    return Runner(
        app_name=agent.name, agent=agent, session_service=SqliteSessionService(str(_private(results, SESSIONS)))
    )


def a2a_app(agent: BaseAgent, runs: Runs, url: str, callers: Callers | None = None) -> ASGIApp:
    """Return the ASGI application that answers for an agent over A2A, in 1.0 and 0.3.

    :param agent: as :func:`~.agent.make_evaluator` made it, over the same ``runs``.
    :param url: at which callers reach it.
    :param callers: who may call, each for its own evaluations; None for everybody on this machine, who see all.
    :raises ConfigurationError: if the results directory cannot be written.
    """
    results = runs.terms.results
    runs.by_caller = callers is not None
    runner = make_runner(agent, results)
    engine = create_async_engine(f"sqlite+aiosqlite:///{_private(results, TASKS)}")

    @contextlib.asynccontextmanager
    async def live(app: Starlette) -> AsyncIterator[None]:
        # Interrupted evaluations are resumed before the first message.
        await asyncio.to_thread(runs.take_up)
        try:
            yield
        finally:
            await asyncio.to_thread(runs.close)
            await runner.close()
            await engine.dispose()

    app = to_a2a(
        agent,
        agent_card=card_of(url, needs_token=callers is not None),
        runner=runner,
        task_store=DatabaseTaskStore(engine),
        lifespan=live,
    )
    whole = bounded(app)
    return called_by_name(whole, url) if callers is None else guarded(whole, callers.who)


def serve(
    make: Callable[[], BaseAgent],
    runs: Runs,
    host: str,
    port: int,
    *,
    card_url: str | None = None,
    callers: Callers | None = None,
    on_ready: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve an agent until SIGINT or SIGTERM; evaluations that run then are taken up again by the next start.

    :param on_ready: called with the URL once it listens.
    :raises ConfigurationError: if it cannot be served there.
    """
    with listen(host, port) as listener:
        url = local_url(host, listener.getsockname()[1]) + "/"
        app = a2a_app(make(), runs, card_url or url, callers)

        async def until_signal() -> None:
            async with serving(app, listener, grace=_GRACE, lifespan="on") as server:
                on_ready(url)
                await server.until_signal()

        asyncio.run(until_signal())


def _private(results: Path, name: str) -> Path:
    """Return a file of the results directory that only its owner may read: it holds conversations."""
    with refusing(f"the results directory {results} cannot be written"):
        results.mkdir(parents=True, exist_ok=True, mode=0o700)
        (results / name).touch(mode=0o600)
    return results / name
