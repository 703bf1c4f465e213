"""The page at ``/``: what runs, what has ended, and the report of each, for people.

It is made on the server and needs no script; with one it follows what runs. Reports show what tasks expected, which an
agent under test must not read, so they are for operators: callers that the operator names, or whoever uses this machine
where it alone is served.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import time
from collections.abc import AsyncIterator
from functools import cache
from importlib.resources import files
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from pytest_a2a_bench.assessor.desk import Desk
from pytest_a2a_bench.assessor.protocol import NAME as PROTOCOL_FILE
from pytest_a2a_bench.assessor.terms import Terms
from pytest_a2a_bench.conformance.stored import REPORT
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.gates.files import VERDICT, VERDICT_FILE, StoredVerdict
from pytest_a2a_bench.redact import redact_url
from pytest_a2a_bench.reports.html import Contents, now, render
from pytest_a2a_bench.reports.html.conformance import rows_of
from pytest_a2a_bench.reports.html.markup import Html, el, seconds, verbatim
from pytest_a2a_bench.results import assessments as records
from pytest_a2a_bench.results.assessments import Record
from pytest_a2a_bench.results.store import Store, StoreError
from pytest_a2a_bench.secret import KNOWN

SHOWN = 200
"""Most finished assessments on the page."""


def page_routes(desk: Desk, terms: Terms) -> list[BaseRoute]:
    """Return the routes of the page."""

    async def overview(request: Request) -> Response:
        found = await asyncio.to_thread(desk.watch.kept.all)
        mine = [record for record in found if _may_see(request, terms, record)]
        page = _overview(mine, desk, has_reports=_is_operator(request, terms))
        return HTMLResponse(KNOWN.hide(page), headers=_headers())

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
        Route("/", overview, methods=["GET"]),
        Route("/events", events, methods=["GET"]),
        Route("/assessments/{name}", report, methods=["GET"]),
    ]


_NO_STORE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}


def _headers() -> dict[str, str]:
    script, style = _asset("overview.js"), _asset("overview.css")
    rules = (
        "default-src 'none'",
        f"script-src '{_digest(script)}'",
        f"style-src '{_digest(style)}'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
    return {**_NO_STORE, "Content-Security-Policy": "; ".join(rules)}


def _caller(request: Request) -> str:
    return str(request.user.display_name) if "user" in request.scope else ""


def _is_operator(request: Request, terms: Terms) -> bool:
    return terms.is_private or _caller(request) in terms.operators


def _may_see(request: Request, terms: Terms, record: Record) -> bool:
    return _is_operator(request, terms) or record.caller == _caller(request)


# --- the overview -----------------------------------------------------------------------------------------------------


def _overview(found: list[Record], desk: Desk, *, has_reports: bool) -> str:
    running = [record for record in found if record.state in records.UNFINISHED]
    ended = [record for record in found if record.state not in records.UNFINISHED]
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="robots", content="noindex"),
        el("title", "Assessments \u2013 pytest-a2a-bench"),
        el("style", verbatim(_asset("overview.css"))),
    )
    more = f" The newest {SHOWN} are shown." if len(ended) > SHOWN else ""
    main = el(
        "main",
        el("h1", "Assessments"),
        el("p", f"{desk.slots.running} run, {desk.slots.waiting} wait, {len(ended)} have ended.{more}"),
        el("h2", "Running"),
        el("ul", [_running_row(record, desk) for record in running]) if running else el("p", "None."),
        el("h2", "Ended"),
        el("ul", [_ended_row(record, has_reports) for record in ended[:SHOWN]]) if ended else el("p", "None."),
    )
    script = el("script", verbatim(_asset("overview.js")))
    return f"<!doctype html>\n{el('html', head, el('body', main, script), lang='en')}\n"


def _running_row(record: Record, desk: Desk) -> Html:
    told = _progress(record.name, desk)
    return el(
        "li",
        el("div", _state(record), el("span", _what(record), class_="what"), _when(record), class_="top"),
        el("div", told["text"], class_="told", role="status"),
        el("progress", max=told["total"] or 1, value=told["done"], aria_label="Progress"),
        data_running=record.name,
    )


def _ended_row(record: Record, has_reports: bool) -> Html:
    first, *rest = (record.summary or "no summary").splitlines() or [""]
    link = el("a", "Report", href=f"assessments/{record.name}") if has_reports and record.score is not None else None
    return el(
        "li",
        el("div", _state(record), el("span", _what(record), class_="what"), _when(record), link, class_="top"),
        el("div", first, class_="told"),
        el("details", el("summary", "More"), el("pre", "\n".join(rest))) if rest else None,
    )


def _state(record: Record) -> Html:
    return el("span", record.state, class_=f"state {record.state}")


def _what(record: Record) -> str:
    request = record.request
    what = str(request.get("domain") or request.get("evaluation") or "")
    who = f" for {record.caller}" if record.caller else ""
    return f"{what}: {redact_url(str(request.get('agent') or ''), query=False)}{who}"


def _when(record: Record) -> Html:
    began = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(record.submitted))
    took = f", {seconds(record.ended - record.submitted)}" if record.ended is not None else ""
    return el("span", began + took, class_="told")


def _progress(name: str, desk: Desk) -> dict[str, Any]:
    assessment = desk.running.get(name)
    if assessment is None:
        return {"name": name, "text": "not running here", "done": 0, "total": 0}
    progress = assessment.progress
    return {"name": name, "text": progress.text, "done": progress.done, "total": progress.total}


async def _running(request: Request, desk: Desk, terms: Terms) -> AsyncIterator[str]:
    """Yield what runs as server-sent events, when it has changed."""
    said = ""
    found = await asyncio.to_thread(desk.watch.kept.all)
    while not desk.is_closing and not await request.is_disconnected():
        mine = [r for r in found if r.state in records.UNFINISHED and _may_see(request, terms, r)]
        text = json.dumps([_progress(record.name, desk) for record in mine])
        # A comment keeps the connection open where nothing changes.
        yield f"data: {text}\n\n" if text != said else ": nothing new\n\n"
        said = text
        with contextlib.suppress(OSError):  # a directory that comes back
            found = await desk.watch.next()


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


@cache
def _asset(name: str) -> str:
    return (files("pytest_a2a_bench.assessor") / "assets" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
