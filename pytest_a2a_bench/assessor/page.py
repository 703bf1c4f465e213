"""The page at ``/``: what runs, what has ended, and the report of each, for people.

It is made on the server and needs no script; with one it follows what runs. Reports show what tasks expected, which an
agent under test must not read, so they are for operators: callers that the operator names, or whoever uses this machine
where it alone is served.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from pytest_a2a_bench.assessor import overview
from pytest_a2a_bench.assessor.desk import Desk
from pytest_a2a_bench.assessor.overview import Shown
from pytest_a2a_bench.assessor.progress import Progress
from pytest_a2a_bench.assessor.protocol import NAME as PROTOCOL_FILE
from pytest_a2a_bench.assessor.terms import Terms
from pytest_a2a_bench.conformance.stored import REPORT
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.gates.files import VERDICT, VERDICT_FILE, StoredVerdict
from pytest_a2a_bench.reports.html import Contents, now, render
from pytest_a2a_bench.reports.html.conformance import rows_of
from pytest_a2a_bench.results import assessments as records
from pytest_a2a_bench.results.assessments import Record
from pytest_a2a_bench.results.store import Store, StoreError
from pytest_a2a_bench.secret import KNOWN


def page_routes(desk: Desk, terms: Terms) -> list[BaseRoute]:
    """Return the routes of the page."""

    async def main(request: Request) -> Response:
        found = await asyncio.to_thread(desk.watch.kept.all)
        mine = [record for record in found if _may_see(request, terms, record)]
        progress = {r.name: told for r in mine if (told := _progress(desk, r.name)) is not None}
        page = overview.render(Shown(mine, progress, _is_operator(request, terms), time.time()))
        return HTMLResponse(KNOWN.hide(page), headers={**_NO_STORE, "Content-Security-Policy": overview.policy()})

    async def events(request: Request) -> Response:
        return StreamingResponse(_running(request, desk, terms), media_type="text/event-stream", headers=_NO_STORE)

    async def report(request: Request) -> Response:
        name = request.path_params["name"]
        if not _is_operator(request, terms) or not records.is_name(name):
            return PlainTextResponse("there is no such report for you\n", 404)
        page = await asyncio.to_thread(_report, name, terms)
        if page is None:
            return PlainTextResponse("there is nothing to report on yet\n", 404)
        return HTMLResponse(KNOWN.hide(page), headers=_NO_STORE)

    return [
        Route("/", main, methods=["GET"]),
        Route("/events", events, methods=["GET"]),
        Route("/assessments/{name}", report, methods=["GET"]),
    ]


_NO_STORE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}


def _caller(request: Request) -> str:
    return str(request.user.display_name) if "user" in request.scope else ""


def _is_operator(request: Request, terms: Terms) -> bool:
    return terms.is_private or _caller(request) in terms.operators


def _may_see(request: Request, terms: Terms, record: Record) -> bool:
    return _is_operator(request, terms) or record.caller == _caller(request)


# --- what runs --------------------------------------------------------------------------------------------------------


async def _running(request: Request, desk: Desk, terms: Terms) -> AsyncIterator[str]:
    """Yield what runs as server-sent events, when it has changed."""
    said = ""
    found = await asyncio.to_thread(desk.watch.kept.all)
    while not desk.is_closing and not await request.is_disconnected():
        mine = [r for r in found if r.state in records.UNFINISHED and _may_see(request, terms, r)]
        text = json.dumps([overview.progress_of(record, _progress(desk, record.name)) for record in mine])
        # A comment keeps the connection open where nothing changes.
        yield f"data: {text}\n\n" if text != said else ": nothing new\n\n"
        said = text
        with contextlib.suppress(OSError):  # a directory that comes back
            found = await desk.watch.next()


def _progress(desk: Desk, name: str) -> Progress | None:
    assessment = desk.running.get(name)
    return None if assessment is None else assessment.progress


# --- the report -------------------------------------------------------------------------------------------------------


def _report(name: str, terms: Terms) -> str | None:
    """Return the report page of one assessment; None where it has nothing yet."""
    directory = terms.directory(name)
    try:
        if (directory / PROTOCOL_FILE).exists():
            checks, explanations = rows_of(REPORT.read(directory / PROTOCOL_FILE))
            return render(Contents(checks=checks, explanations=explanations, made_at=now()))
        trials = list(Store(directory).read_all())
        verdict: StoredVerdict | None = None
        if (directory / VERDICT_FILE).exists():
            verdict = VERDICT.read(directory / VERDICT_FILE)
    except (StoreError, ConfigurationError, FileNotFoundError):
        return None
    if not trials:
        return None
    agent = verdict.agent if verdict is not None else None
    return render(
        Contents(
            trials=trials,
            endpoint=agent.endpoint if agent else "",
            agent=agent.name if agent else "",
            interface=agent.interface if agent else "",
            verdict=verdict,
            made_at=now(),
        )
    )
