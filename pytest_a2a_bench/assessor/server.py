"""Serve the assessor: its ASGI application, the process around it, and assessments that an earlier process left.

Beside A2A's routes there are the page that lists assessments, their reports, health checks and Prometheus metrics.
Reports show what tasks expected, which an agent under test must not read, so they are for operators: callers that the
operator names, or everybody on this machine where only this machine is served.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from a2a.server.context import ServerCallContext
from a2a.types import Message, SendMessageConfiguration, SendMessageRequest, Task, TaskState
from a2a.utils.errors import A2AError
from google.protobuf.json_format import MessageToJson, ParseDict, ParseError
from markupsafe import Markup
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from pytest_a2a_bench import __version__
from pytest_a2a_bench.a2a.card import CARD_PATH
from pytest_a2a_bench.a2a.network import Network, read_variable
from pytest_a2a_bench.a2a.transport import open_client
from pytest_a2a_bench.agents.gateway import bounded, called_by_name, counted, guarded
from pytest_a2a_bench.assessor.assessment import PROTOCOL_FILE
from pytest_a2a_bench.assessor.executor import ENDED, AssessmentExecutor, Look
from pytest_a2a_bench.assessor.handler import AssessorHandler, a2a_routes, build_card
from pytest_a2a_bench.assessor.monitoring import CONTENT_TYPE, Monitor
from pytest_a2a_bench.assessor.result import whole_numbers
from pytest_a2a_bench.assessor.store import SECONDS, KnownUser, WebhookSender, judge_urls, keep_removing, open_stores
from pytest_a2a_bench.assessor.terms import Callers, Terms, known_domains
from pytest_a2a_bench.conformance.report import REPORT
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.listener import listen, local_url
from pytest_a2a_bench.model import dollars
from pytest_a2a_bench.quiet_server import serving
from pytest_a2a_bench.redact import KNOWN, KnownSecret, redact_url
from pytest_a2a_bench.reports.contents import Contents, gather, now, rows_of
from pytest_a2a_bench.reports.html import render
from pytest_a2a_bench.reports.html.charts import Child, el
from pytest_a2a_bench.results import assessments as records
from pytest_a2a_bench.results.assessments import Record
from pytest_a2a_bench.results.store import StoreError
from pytest_a2a_bench.text import refusing
from pytest_a2a_bench.tracing import NO_TRACING, Tracing

_SHOWN = 200
"""Most assessments on the page."""

_RELOAD = 10
"""Seconds after which browsers load the page again while an assessment runs or waits."""

_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_STYLE = """
:root { color-scheme: light dark; }
body { background: Canvas; color: CanvasText; font: 1rem/1.5 system-ui, sans-serif; margin: 2rem; }
table { border-collapse: collapse; width: 100%; }
th, td { border-top: 1px solid color-mix(in srgb, CanvasText 25%, Canvas); padding: .5rem; text-align: left;
  vertical-align: top; }
td:nth-child(4), td:nth-child(5) { overflow-wrap: anywhere; }
@media (max-width: 640px) { body { margin: 1rem; } tr, th, td { display: block; border: 0; padding: .15rem 0; }
  tr { border-top: 1px solid; padding: .75rem 0; } thead { display: none; } }
"""


def other_routes(executor: AssessmentExecutor, terms: Terms, monitor: Monitor, engine: AsyncEngine) -> list[BaseRoute]:
    """Return the routes."""

    async def page(request: Request) -> Response:
        found = [one for one in await asyncio.to_thread(executor.kept.all) if _may_see(request, terms, one)]
        markup = _page(executor, found, has_reports=_is_operator(request, terms))
        headers = {**_HEADERS, "Content-Security-Policy": _POLICY}
        if any(one.state in records.UNFINISHED for one in found):
            headers["Refresh"] = str(_RELOAD)
        return HTMLResponse(KNOWN.hide(markup), headers=headers)

    async def report(request: Request) -> Response:
        name = request.path_params["name"]
        if not _is_operator(request, terms) or not records.is_name(name):
            return PlainTextResponse("there is no such report for you\n", 404)
        markup = await asyncio.to_thread(_report, name, terms)
        if markup is None:
            return PlainTextResponse("there is nothing to report on yet\n", 404)
        return HTMLResponse(KNOWN.hide(markup), headers=_HEADERS)

    async def live(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def ready(request: Request) -> Response:
        if executor.is_closing:
            return JSONResponse({"status": "closing"}, 503)
        try:
            async with engine.connect() as connection:
                await connection.execute(text("SELECT 1"))
        except (SQLAlchemyError, OSError):
            return JSONResponse({"status": "the database does not answer"}, 503)
        return JSONResponse({"status": "ok"})

    async def metrics(request: Request) -> Response:
        return Response(monitor.render(), headers={"Content-Type": CONTENT_TYPE})

    endpoints = {"/": page, "/assessments/{name}": report, "/healthz": live, "/readyz": ready, "/metrics": metrics}
    return [Route(path, endpoint, methods=["GET"]) for path, endpoint in endpoints.items()]


def _caller(request: Request) -> str:
    return str(request.user.display_name) if "user" in request.scope else ""


def _is_operator(request: Request, terms: Terms) -> bool:
    return terms.is_private or _caller(request) in terms.operators


def _may_see(request: Request, terms: Terms, record: Record) -> bool:
    return _is_operator(request, terms) or record.caller == _caller(request)


# --- the page ---------------------------------------------------------------------------------------------------------


def _page(executor: AssessmentExecutor, found: list[Record], *, has_reports: bool) -> str:
    """Return the page: the assessments that run or wait first, then the newest."""
    order = ("running", "waiting")
    found = sorted(found, key=lambda one: order.index(one.state) if one.state in order else len(order))
    rows = [el("tr", [el("td", cell) for cell in _cells(executor, one, has_reports)]) for one in found[:_SHOWN]]
    columns = ("State", "Score", "Benchmark", "Agent", "Result", "Submitted", "Report")
    titles = el("thead", el("tr", [el("th", name, scope="col") for name in columns]))
    table = el("table", titles, el("tbody", rows))
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="robots", content="noindex"),
        el("title", "Assessments \u2013 pytest-a2a-bench"),
        el("style", Markup(_STYLE)),
    )
    main = el(
        "main",
        el("h1", "Assessments"),
        table if rows else el("p", "There are none yet. Requests come over A2A."),
        el("p", f"The first {_SHOWN} of {len(found)} are shown.") if len(found) > _SHOWN else None,
        el("p", f"pytest-a2a-bench {__version__}, as of {_clock(time.time())}. ", el("a", "Reload", href="./")),
    )
    return f"<!doctype html>\n{el('html', head, el('body', main), lang='en')}\n"


def _cells(executor: AssessmentExecutor, record: Record, has_reports: bool) -> Iterator[Child]:
    running = executor.running.get(record.name)
    domain = str(record.request.get("domain") or record.request.get("evaluation") or "a request")
    yield record.state
    yield f"{record.score:g} of {record.max_score:g}" if record.score is not None and record.max_score else "\u2013"
    yield domain
    yield redact_url(str(record.request.get("agent") or ""), query=False)
    if record.state == "running":
        yield running.progress.text if running is not None else "runs on another instance"
    else:
        cost = f" ({dollars(record.cost)})" if record.cost else ""
        yield next(iter(record.summary.splitlines()), "") + cost
    yield _clock(record.submitted) + (f" by {record.caller}" if record.caller else "")
    if has_reports and (record.state == "running" or record.score is not None):
        label = f"Report of {domain}, {_clock(record.submitted)}"
        yield el("a", "Report", href=f"assessments/{record.name}", aria_label=label)
    else:
        yield ""


def _clock(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(moment))


def _report(name: str, terms: Terms) -> str | None:
    """Return the report of one assessment as a page, of the trials so far; None where there are none."""
    directory = terms.directory(name)
    try:
        if (directory / PROTOCOL_FILE).exists():
            kept = REPORT.read(directory / PROTOCOL_FILE)
            checks, explanations = rows_of(kept)
            spoken = ", ".join(kept.interfaces)
            return render(Contents((), kept.endpoint, kept.agent, spoken, checks, explanations, made_at=now()))
        return render(gather(directory, None, None))
    except (StoreError, ConfigurationError, FileNotFoundError):
        return None


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
    """Give the ASGI application; it takes up interrupted assessments; its own go on after a restart.

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
    if terms.results.exists() and not terms.results.is_dir():
        raise ConfigurationError(f"--results {terms.results}: it is a file; name a directory")
    with refusing(f"--results {terms.results}: cannot be written"):
        terms.results.mkdir(parents=True, exist_ok=True, mode=0o700)
        ignore = terms.results / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")


# --- what was interrupted ---------------------------------------------------------------------------------------------


async def _keep_taking_up(handler: AssessorHandler, executor: AssessmentExecutor, look: Look) -> None:
    """Take up the assessments of a process that has ended: this one's, or another's that serves the same tasks."""
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
