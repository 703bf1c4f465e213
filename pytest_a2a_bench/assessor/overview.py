"""The page at ``/`` as markup: what runs, what has ended and how, for people (pure).

It looks like the report page, whose style it has, and needs no script; with one it follows what runs.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from markupsafe import Markup

from pytest_a2a_bench import __version__
from pytest_a2a_bench.assessor.progress import Progress
from pytest_a2a_bench.model import dollars
from pytest_a2a_bench.redact import redact_url
from pytest_a2a_bench.reports.html.markup import el, seconds
from pytest_a2a_bench.results import assessments as records
from pytest_a2a_bench.results.assessments import Record

SHOWN = 200
"""Most finished assessments on the page."""

_HERE = "pytest_a2a_bench.assessor"
_PATTERNS = 6
_PILLS = {"completed": "good", "failed": "bad", "canceled": "muted", "running": "busy", "waiting": "muted"}


class Shown(NamedTuple):
    """What the page is made of.

    :param found: the assessments that the reader may see, the newest first.
    :param running: how far those are that run in this process, by name.
    :param has_reports: whether reports are linked.
    :param now: seconds since 1970.
    """

    found: Sequence[Record]
    running: Mapping[str, Progress]
    has_reports: bool
    now: float


def render(shown: Shown) -> str:
    """Return the page."""
    running = [record for record in shown.found if record.state == "running"]
    running += [record for record in shown.found if record.state == "waiting"]
    ended = [record for record in shown.found if record.state not in records.UNFINISHED]
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("meta", name="robots", content="noindex"),
        el("title", f"{_title(running)} \u2013 pytest-a2a-bench"),
        el("style", Markup(_style())),
    )
    main = el(
        "main",
        el(
            "header",
            el("p", f"pytest-a2a-bench {__version__} \u00b7 assessor", class_="eyebrow"),
            el("h1", "Assessments"),
            class_="page-head",
        ),
        _figures(running, ended, shown),
        _running(running, shown),
        _patterns(ended),
        _ended(ended, shown),
        el(
            "noscript",
            el(
                "p",
                f"As of {_clock(shown.now)}. ",
                el("a", "Load again", href="./"),
                " to see what is new.",
                class_="note",
            ),
        ),
        id="main",
    )
    body = el(
        "body",
        el("a", "To the assessments", href="#main", class_="skip"),
        main,
        el("div", class_="hidden", role="status", id="told"),
        el("script", Markup(_script())),
    )
    return f"<!doctype html>\n{el('html', head, body, lang='en')}\n"


def policy() -> str:
    """Return the content security policy that lets exactly this page's script and style in."""
    rules = (
        "default-src 'none'",
        f"script-src '{_digest(_script())}'",
        f"style-src '{_digest(_style())}'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
    return "; ".join(rules)


def progress_of(record: Record, progress: Progress | None) -> dict[str, Any]:
    """Return what the page's script is told of one assessment that runs."""
    about = {"name": record.name, "state": record.state}
    if record.state == "waiting" or progress is None:
        text = "waits for its turn" if record.state == "waiting" else "is held by another instance"
        return {**about, "text": text, "done": 0, "total": 0, "parts": []}
    return {
        **about,
        "text": progress.text,
        "done": progress.done,
        "total": progress.total,
        "parts": [progress.passed, max(0, progress.done - progress.passed - progress.errors), progress.errors],
        "failures": _words(progress.failures),
    }


def _title(running: Sequence[Record]) -> str:
    return f"{len(running)} under way" if running else "Assessments"


def _figures(running: Sequence[Record], ended: Sequence[Record], shown: Shown) -> Markup:
    states = Counter(record.state for record in shown.found)
    costs = [record.cost for record in ended if record.cost is not None]
    costs += [p.cost for p in shown.running.values() if p.cost is not None]
    figures: list[tuple[str, str, str]] = [
        ("Running", str(states["running"]), f"{states['waiting']} waiting"),
        ("Completed", str(states["completed"]), "with a result"),
        ("Without a result", str(states["failed"] + states["canceled"]), f"{states['canceled']} of them canceled"),
        ("Cost", dollars(sum(costs)) if costs else "\u2013", "as agents and models tell"),
    ]
    return el(
        "dl",
        [el("div", el("dt", name), el("dd", el("b", value), el("small", note))) for name, value, note in figures],
        class_="headline",
    )


# --- what runs --------------------------------------------------------------------------------------------------------


def _running(running: Sequence[Record], shown: Shown) -> Markup:
    nothing = el("p", "Nothing runs. Requests come over A2A; this page follows them.", class_="empty")
    cards = [_card(record, shown) for record in running]
    heading = el("h2", "Running", id="running")
    return el("section", heading, el("ul", cards, class_="cards") if cards else nothing, aria_labelledby="running")


def _card(record: Record, shown: Shown) -> Markup:
    told = progress_of(record, shown.running.get(record.name))
    title = f"t-{record.name}"
    return el(
        "li",
        el("div", el("h3", _what(record), id=title), _pill(record), class_="row"),
        el("p", _agent(record), class_="mono agent"),
        _bar(told),
        el("p", told["text"], class_="told"),
        el("p", told.get("failures", ""), class_="note failures"),
        el("p", f"{_who(record)}since {_clock(record.submitted)}", class_="note"),
        class_="card",
        data_running=record.name,
        data_state=record.state,
        aria_labelledby=title,
    )


def _bar(told: Mapping[str, Any]) -> Markup:
    """Return how far it is: passed, failed, errors, and what is to come."""
    total = told["total"] or 1
    parts, x = [], 0.0
    for kind, many in zip(("good", "bad", "unsure"), told["parts"] or (0, 0, 0), strict=True):
        width = 100 * many / total
        parts.append(el("rect", x=round(x, 3), y=0, width=round(width, 3), height=10, class_=f"fill {kind}"))
        x += width
    label = f"{told['done']} of {told['total']} done"
    return el(
        "svg",
        el("rect", x=0, y=0, width=100, height=10, class_="track"),
        parts,
        class_="progress",
        viewBox="0 0 100 10",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )


# --- what has ended ---------------------------------------------------------------------------------------------------


def _patterns(ended: Sequence[Record]) -> Markup | None:
    """Return how trials failed, over all assessments of a domain."""
    domains: dict[str, Counter[str]] = {}
    for record in ended:
        if record.state == "completed" and (record.failures or record.errors):
            tally = domains.setdefault(_what(record), Counter())
            tally.update(record.failures)
            tally["could not be evaluated"] += record.errors
    if not domains:
        return None
    rows = [
        el(
            "tr",
            el("th", domain, scope="row"),
            el("td", [_chip(reason, many) for reason, many in (+tally).most_common(_PATTERNS)], class_="chips"),
        )
        for domain, tally in domains.items()
    ]
    return el(
        "section",
        el("h2", "How they failed", id="patterns"),
        el("table", el("caption", "Trials that did not succeed, by domain", class_="hidden"), el("tbody", rows)),
        aria_labelledby="patterns",
    )


def _chip(reason: str, many: int) -> Markup:
    return el("span", el("b", many), f" {reason}", class_="chip")


def _ended(ended: Sequence[Record], shown: Shown) -> Markup:
    more = el("p", f"The newest {SHOWN} of {len(ended)} are shown.", class_="note") if len(ended) > SHOWN else None
    rows = [_row(record, shown) for record in ended[:SHOWN]]
    nothing = el("p", "None has ended yet.", class_="empty")
    heading = el("h2", "Ended", id="ended")
    return el("section", heading, el("ul", rows, class_="ended") if rows else nothing, more, aria_labelledby="ended")


def _row(record: Record, shown: Shown) -> Markup:
    first, *rest = (record.summary or "no summary").splitlines() or [""]
    what = _what(record)
    report = None
    if shown.has_reports and record.score is not None:
        report = el(
            "a", "Report", el("span", f" of {what}, {_clock(record.submitted)}", class_="hidden"),
            href=f"assessments/{record.name}",
        )  # fmt: skip
    return el(
        "li",
        el("div", el("h3", what), _pill(record), class_="row"),
        _score(record),
        el(
            "div",
            el("p", _agent(record), class_="mono agent"),
            el("p", first, class_="told"),
            el("p", _words(record.failures), class_="note failures") if record.failures else None,
            _details(record, rest),
            class_="body",
        ),
        el("div", [el("p", fact, class_="note") for fact in _facts(record)], report, class_="aside"),
    )


def _score(record: Record) -> Markup:
    if record.score is None or not record.max_score:
        return el("div", el("b", "\u2013"), class_="score")
    return el("div", el("b", f"{record.score:g}"), el("small", f"of {record.max_score:g}"), class_="score")


def _details(record: Record, rest: Sequence[str]) -> Markup | None:
    if not rest:
        return None
    return el("details", el("summary", "More"), el("pre", "\n".join(rest)), id=f"d-{record.name}")


def _facts(record: Record) -> list[str]:
    took = seconds(record.ended - record.submitted) if record.ended is not None else None
    cost = dollars(record.cost) if record.cost else None
    who = record.caller and f"for {record.caller}"
    return [_clock(record.submitted), " \u00b7 ".join(filter(None, [took, cost, who]))]


# --- in words ---------------------------------------------------------------------------------------------------------


def _pill(record: Record) -> Markup:
    return el("span", record.state, class_=f"pill {_PILLS[record.state]}")


def _what(record: Record) -> str:
    return str(record.request.get("domain") or record.request.get("evaluation") or "a request")


def _agent(record: Record) -> str:
    return redact_url(str(record.request.get("agent") or ""), query=False)


def _who(record: Record) -> str:
    return f"for {record.caller}, " if record.caller else ""


def _words(failures: Mapping[str, int]) -> str:
    """Return how trials failed, the most frequent first, in one line."""
    most = sorted(failures.items(), key=lambda pair: -pair[1])
    said = ", ".join(f"{many}\u00d7 {reason}" for reason, many in most[:_PATTERNS])
    return said + (f" and {len(most) - _PATTERNS} more" if len(most) > _PATTERNS else "")


def _clock(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(moment))


@cache
def _style() -> str:
    return "".join(
        (files(package) / "assets" / name).read_text(encoding="utf-8")
        for package, name in (
            ("pytest_a2a_bench.reports.html", "page.css"),
            ("pytest_a2a_bench.assessor", "overview.css"),
        )
    )


@cache
def _script() -> str:
    return (files(_HERE) / "assets" / "overview.js").read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
