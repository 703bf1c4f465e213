"""Routes beside A2A's: the page that lists assessments, their reports, health checks and Prometheus metrics.

Reports show what tasks expected, which an agent under test must not read, so they are for operators: callers that the
operator names, or everybody on this machine where only this machine is served.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from markupsafe import Markup
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from pytest_a2a_bench import __version__
from pytest_a2a_bench.assessor.assessment import PROTOCOL_FILE
from pytest_a2a_bench.assessor.executor import AssessmentExecutor
from pytest_a2a_bench.assessor.monitoring import CONTENT_TYPE, Monitor
from pytest_a2a_bench.assessor.terms import Terms
from pytest_a2a_bench.conformance.report import REPORT
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model import dollars
from pytest_a2a_bench.redact import KNOWN, redact_url
from pytest_a2a_bench.reports.contents import Contents, gather, now, rows_of
from pytest_a2a_bench.reports.html import render
from pytest_a2a_bench.reports.html.markup import Child, el
from pytest_a2a_bench.results import assessments as records
from pytest_a2a_bench.results.assessments import Record
from pytest_a2a_bench.results.store import StoreError

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
  vertical-align: top; overflow-wrap: anywhere; }
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


def _clock(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(moment))


def _report(name: str, terms: Terms) -> str | None:
    """Return the report of one assessment as a page, of the trials so far; None where there are none."""
    directory = terms.directory(name)
    try:
        if (directory / PROTOCOL_FILE).exists():
            checks, explanations = rows_of(REPORT.read(directory / PROTOCOL_FILE))
            return render(Contents(checks=checks, explanations=explanations, made_at=now()))
        return render(gather(directory, None, None))
    except (StoreError, ConfigurationError, FileNotFoundError):
        return None
