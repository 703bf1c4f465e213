"""One page that needs nothing else: markup, style, script and data in one file (pure).

Where transcripts are kept beside it instead, each chunk of them is a page, too: from a disk a browser lets a page read
other files in no way but in a frame, which tells it what it holds.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
from collections.abc import Callable, Iterable
from functools import cache
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from pytest_a2a_bench import __version__
from pytest_a2a_bench.model import TrialResult
from pytest_a2a_bench.reports.contents import Contents
from pytest_a2a_bench.reports.diagnosis import clusters
from pytest_a2a_bench.reports.html import comparison, conformance, explorer, figures, over_time, overview, records, why
from pytest_a2a_bench.reports.html.markup import el, join
from pytest_a2a_bench.reports.trial_text import rerun_command

_SCRIPTS = ("dom.js", "data.js", "table.js", "transcript.js", "viewer.js", "keys.js")
_CHUNK_SCRIPT = ("chunk.js",)
# Read from the package, so that the page needs no network.
_STYLES = ("page.css", "trials.css", "viewer.css")


def render(contents: Contents, keep: Callable[[str], str] | None = None) -> str:
    """Return the page.

    It asks the network for nothing, and its policy forbids it to; only the page's own script and style run, which the
    policy knows by their hashes.

    :param keep: stores the page of a chunk of transcripts, and returns its address from this page; None where they are
        to be in this page.
    """
    # Sorted once; table, chunks and viewer count on one order.
    ordered = sorted(contents.trials, key=records.order)
    contents = dataclasses.replace(contents.with_known_endpoint(), trials=ordered)
    script, style = asset(_SCRIPTS), asset(_STYLES)
    # By the letter of the standard files of a disk are of no place, and so none is 'self'.
    framed = ["frame-src 'self' file:"] if keep is not None else []
    name = contents.agent or contents.endpoint or "results"
    head = el(
        "head",
        el("meta", charset="utf-8"),
        # Before the styles: a policy holds for what follows it.
        el("meta", http_equiv="Content-Security-Policy", content=policy(script, style, *framed)),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="referrer", content="no-referrer"),
        el("meta", name="robots", content="noindex"),
        el("meta", name="generator", content=f"pytest-a2a-bench {__version__}"),
        el("title", f"{name} \u2013 pytest-a2a-bench"),
        el("style", Markup(style)),
    )
    # At the end of the body: the elements that it fills are there then.
    body = el("body", _body(contents, keep), el("script", Markup(script)))
    return f"<!doctype html>\n{el('html', head, body, lang='en')}\n"


def render_chunk(packed: str) -> str:
    """Return the page of a chunk: it tells the page that frames it what it holds, and can do nothing else."""
    script = asset(_CHUNK_SCRIPT)
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=policy(script)),
        el("meta", name="robots", content="noindex"),
        el("title", "Transcripts"),
    )
    told = el("p", "Transcripts, packed: ", el("a", "index.html", href="../index.html"), " shows them.")
    body = el("body", told, explorer.chunk_element(packed, "chunk"), el("script", Markup(script)))
    return f"<!doctype html>\n{el('html', head, body, lang='en')}\n"


def policy(script: str, style: str = "", *more: str) -> str:
    """Return the content security policy that lets exactly this script and this style in.

    :param more: further rules, of what else may be loaded or shown.
    """
    rules = (
        "default-src 'none'",
        f"script-src '{digest(script)}'",
        *([f"style-src '{digest(style)}'"] if style else []),
        *more,
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
    return "; ".join(rules)


def _body(contents: Contents, keep: Callable[[str], str] | None) -> Markup:
    sections: list[tuple[str, str, Markup]] = [("verdict", "Verdict", overview.verdict(contents))]
    if contents.comparison is not None:
        compared = comparison.section(contents.comparison, contents.baseline_name)
        sections.append(("baseline", "Baseline", compared))
    reasons = clusters(contents.trials)
    if reasons:
        sections.append(("why", "Why", why.section(reasons)))
    past = over_time.section(contents.history)
    if past is not None:
        sections.append(("past", "Over time", past))
    if contents.compared:
        sections.append(("agents", "Agents", comparison.agents_section(contents.compared)))
    if contents.trials:
        sections.append(("domains", "Domains", figures.by_domain(contents.trials)))
        sections.append(("figures", "Charts", figures.reliability_and_cost(contents.trials)))
    if contents.checks:
        sections.append(("conformance", "Conformance", conformance.section(contents.checks, contents.explanations)))
    if contents.trials:
        sections.append(("trials", "Trials", explorer.section(contents.trials)))
    first, *rest = (markup for _, _, markup in sections)
    return join(
        [
            el("a", "Skip to the trials", href="#trials", class_="skip") if contents.trials else None,
            _bar((id, name) for id, name, _ in sections),
            # A reader sees verdict, rate and cost first.
            el("main", overview.header(contents), first, overview.conditions(contents), rest, id="main"),
            explorer.viewer(),
            *_data(contents, keep),
        ]
    )


def _bar(links: Iterable[tuple[str, str]]) -> Markup:
    return el(
        "div",
        el("nav", [el("a", name, href=f"#{id}") for id, name in links], aria_label="Sections"),
        el("button", "Keys", type="button", id="show-keys", aria_haspopup="dialog"),
        el("button", "Dark", type="button", id="theme"),
        class_="top-bar",
    )


def _data(contents: Contents, keep: Callable[[str], str] | None) -> list[Markup]:
    rows = [records.row(r) for r in contents.trials]
    here: list[Markup] = []
    counts: list[int] = []
    elsewhere: list[str] = []
    # Each chunk is made while records are read: they are not all held as JSON at once.
    for number, (packed, count) in enumerate(explorer.chunks(_detail(contents, r) for r in contents.trials)):
        counts.append(count)
        if keep is None:
            here.append(explorer.chunk_element(packed, f"chunk-{number}"))
        else:
            elsewhere.append(keep(render_chunk(packed)))
    data = {"rows": rows, "chunks": counts, "files": elsewhere, "states": records.STATES}
    return [explorer.data_element("data", data), *here]


def _detail(contents: Contents, result: TrialResult) -> dict[str, Any]:
    """Return what the viewer shows of a trial, with what only the run knows of it."""
    found = records.detail(result)
    key = str(result.key)
    if key in contents.nodeids:
        # Of several agents no single option names the one.
        endpoint = "" if result.key.agent else contents.endpoint
        found["run"] = rerun_command(contents.nodeids[key], endpoint)
    other = contents.beside.get(key)
    if other is not None:
        found["beside"] = records.beside(other, contents.baseline_name)
    return found


@cache
def asset(names: tuple[str, ...]) -> str:
    """Return scripts or styles of the package as one."""
    folder = files("pytest_a2a_bench.reports.html") / "assets"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def digest(text: str) -> str:
    """Return how a policy knows a script or a style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
