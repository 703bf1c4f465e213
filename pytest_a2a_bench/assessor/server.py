"""Serve the assessor: its ASGI application, the process around it, and assessments that an earlier process left."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import NamedTuple

from a2a.server.context import ServerCallContext
from a2a.types import Message, SendMessageConfiguration, SendMessageRequest, Task, TaskState
from a2a.utils.errors import A2AError
from google.protobuf.json_format import MessageToJson, ParseDict, ParseError
from starlette.applications import Starlette
from starlette.types import ASGIApp

from pytest_a2a_bench.a2a.card import CARD_PATH
from pytest_a2a_bench.a2a.network import Network, read_variable
from pytest_a2a_bench.a2a.transport import open_client
from pytest_a2a_bench.agents.gateway import bounded, called_by_name, counted, guarded
from pytest_a2a_bench.assessor.callers import Callers
from pytest_a2a_bench.assessor.executor import ENDED, AssessmentExecutor, Look
from pytest_a2a_bench.assessor.handler import AssessorHandler, a2a_routes, build_card
from pytest_a2a_bench.assessor.monitoring import Monitor
from pytest_a2a_bench.assessor.result import whole_numbers
from pytest_a2a_bench.assessor.routes import other_routes
from pytest_a2a_bench.assessor.store import keep_removing, open_stores
from pytest_a2a_bench.assessor.terms import Terms, known_domains
from pytest_a2a_bench.assessor.webhooks import SECONDS, KnownUser, WebhookSender, judge_urls
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.listener import listen, local_url
from pytest_a2a_bench.quiet_server import serving
from pytest_a2a_bench.redact import KNOWN, KnownSecret
from pytest_a2a_bench.results import assessments as records
from pytest_a2a_bench.results.assessments import Record
from pytest_a2a_bench.results.store import StoreError
from pytest_a2a_bench.tracing import NO_TRACING, Tracing

log = logging.getLogger(__name__)

_GRACE = 2
_KEPT_ALIVE = 75
"""Seconds that an idle connection stays open: longer than clients wait between two polls."""
_LOOK_FOR_ORPHANS = 3.0


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The address and the database of an assessor.

    :param host: the address to listen on; ``port`` 0 is any free one.
    :param card_url: the URL that the card shows, where callers reach us by another one.
    :param database: SQLAlchemy URL of a database that instances share; None for SQLite in the results directory.
    """

    host: str = "127.0.0.1"
    port: int = 9009
    card_url: str | None = None
    database: str | None = None


class Served(NamedTuple):
    """Where requests are answered."""

    url: str
    card_url: str


async def serve(
    options: ServerOptions,
    terms: Terms,
    callers: Callers | None,
    on_ready: Callable[[Served], None],
    tracing: Tracing = NO_TRACING,
) -> None:
    """Serve until SIGINT or SIGTERM; assessments that run then are taken up again by the next start.

    :param callers: who may call; None for everybody.
    :param tracing: makes the spans of assessments; the caller closes it.
    :raises ConfigurationError: if it cannot be served as is said.
    """
    listener = listen(options.host, options.port)
    url = local_url(options.host, listener.getsockname()[1]) + "/"
    async with assessor(options, terms, callers, options.card_url or url, tracing) as app:
        async with serving(app, listener, grace=_GRACE, timeout_keep_alive=_KEPT_ALIVE) as server:
            on_ready(Served(url, url.rstrip("/") + CARD_PATH))
            await server.until_signal()


@contextlib.asynccontextmanager
async def assessor(
    options: ServerOptions, terms: Terms, callers: Callers | None, base: str, tracing: Tracing = NO_TRACING
) -> AsyncIterator[ASGIApp]:
    """Give the ASGI application; interrupted assessments are taken up, those that run at the end by the next start.

    :raises ConfigurationError: if the results directory or the database cannot be used.
    """
    _prepare(terms)
    tokens = [KnownSecret(name, read_variable("--agent-token", name, os.environ)) for name in terms.agent_tokens]
    await asyncio.to_thread(known_domains)  # imports the suites, which the first request should not wait for
    stores = await open_stores(terms.results, options.database)
    monitor = Monitor()
    executor = AssessmentExecutor(terms, monitor, stores.look, is_shared=options.database is not None, tracing=tracing)
    card = build_card(base, needs_token=callers is not None)
    network = Network(guard=terms.guard)
    client = open_client(network, timeout=SECONDS)
    sender = WebhookSender(client, stores.webhooks, stores.tasks)
    handler = AssessorHandler(
        agent_executor=executor,
        task_store=stores.tasks,
        agent_card=card,
        push_config_store=stores.webhooks,
        push_sender=sender,
        push_url_validator=judge_urls(terms.guard),
        validate_input_modes=True,
        event_stream=stores.events,
    )
    routes = [*a2a_routes(handler, card), *other_routes(executor, terms, monitor, stores.engine)]
    app = bounded(Starlette(routes=routes))
    beside = [asyncio.create_task(_keep_taking_up(handler, executor, stores.look))]
    if terms.keep is not None:
        beside.append(asyncio.create_task(keep_removing(terms.results, stores.engine, terms.keep)))
    forget = KNOWN.remember(tokens)
    try:
        let_in = called_by_name(app, base) if callers is None else guarded(app, callers.who)
        yield counted(let_in, monitor.note_request)
    finally:
        executor.close()
        for task in beside:
            task.cancel()
        await handler.aclose()
        await sender.aclose()
        await client.aclose()
        await stores.engine.dispose()
        forget()


def _prepare(terms: Terms) -> None:
    try:
        terms.results.mkdir(parents=True, exist_ok=True, mode=0o700)
        ignore = terms.results / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"--results {terms.results}: cannot be written: {error.strerror}") from error


# --- what was interrupted ---------------------------------------------------------------------------------------------


async def _keep_taking_up(handler: AssessorHandler, executor: AssessmentExecutor, look: Look) -> None:
    """Take up what a process left that has ended: this one's, or another's that serves the same tasks."""
    idle: frozenset[str] = frozenset()
    while True:
        try:
            # A message that reached an execution about to end is lost without an error.
            for name in idle & executor.idle:
                executor.give_back(name)
            idle = executor.idle
            found = await asyncio.to_thread(executor.kept.all)
            unfinished = [one for one in found if one.state in records.UNFINISHED]
            for record in reversed(unfinished):  # the oldest first
                if executor.claim(record.name):
                    await _take_up_or_leave(handler, executor, record, look)
        except Exception:  # a directory or a database that comes back
            log.exception("what was interrupted could not be looked for")
        await asyncio.sleep(_LOOK_FOR_ORPHANS)


async def _take_up_or_leave(handler: AssessorHandler, executor: AssessmentExecutor, record: Record, look: Look) -> None:
    """Take an assessment up, or leave it to the next look: one that cannot be keeps no other from it."""
    try:
        await _take_up(handler, executor, record, look)
    except Exception:
        log.exception("assessment not taken up now", extra={"assessment": record.name})
        if record.name not in executor.at_work:
            executor.give_back(record.name)


async def _take_up(handler: AssessorHandler, executor: AssessmentExecutor, record: Record, look: Look) -> None:
    """Send an assessment's message again: its task is there, and its finished trials, too."""
    terms = executor.terms
    try:
        # It may have ended since it was read.
        if (await asyncio.to_thread(records.read, terms.directory(record.name))).state not in records.UNFINISHED:
            executor.give_back(record.name)
            return
        request = SendMessageRequest(
            message=ParseDict(record.message, Message(), ignore_unknown_fields=True),
            configuration=SendMessageConfiguration(return_immediately=True),
        )
        request.message.task_id = record.name
        await handler.on_message_send(request, ServerCallContext(user=KnownUser(record.caller)))
    except (A2AError, ParseError, StoreError, FileNotFoundError) as error:
        log.warning("assessment not taken up", extra={"assessment": record.name, "reason": str(error)})
        _ended(record, await look(record.name, record.caller)).write(terms.directory(record.name))
        executor.give_back(record.name)


def _ended(record: Record, task: Task | None) -> Record:
    """Return the record of an assessment with the end that its task has; without a task no caller waits for it."""
    if task is None or task.status.state not in ENDED:
        return record.concluded("failed", "it was interrupted, and its task is gone")
    if task.status.state == TaskState.TASK_STATE_COMPLETED and task.artifacts:
        text, data = task.artifacts[0].parts[:2]
        return record.concluded("completed", text.text, json.loads(whole_numbers(MessageToJson(data.data))))
    text = " ".join(part.text for part in task.status.message.parts)
    is_canceled = task.status.state == TaskState.TASK_STATE_CANCELED
    return record.concluded("canceled" if is_canceled else "failed", text)
