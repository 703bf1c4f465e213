"""One page that needs nothing else: markup, style, script and data in one file (pure)."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from pytest_a2a_bench import __version__
from pytest_a2a_bench.reports.html import comparison, conformance, explorer, figures, overview, records
from pytest_a2a_bench.reports.html.contents import Contents
from pytest_a2a_bench.reports.html.markup import Html, el, join, verbatim

_SCRIPTS = ("dom.js", "data.js", "table.js", "transcript.js", "viewer.js", "keys.js")
# Read from the package, so that the page needs no network.
_STYLES = ("page.css", "trials.css", "viewer.css")


def render(contents: Contents) -> str:
    """Return the page.

    It asks the network for nothing, and its policy forbids it to; only the page's own script and style run, which the
    policy knows by their hashes.
    """
    # Sorted once; table, chunks and viewer count on one order.
    ordered = sorted(contents.trials, key=records.order)
    contents = dataclasses.replace(contents.with_known_endpoint(), trials=ordered)
    script, style = _asset(_SCRIPTS), _asset(_STYLES)
    name = contents.agent or contents.endpoint or "results"
    head = el(
        "head",
        el("meta", charset="utf-8"),
        # Before the styles: a policy holds for what follows it.
        el("meta", http_equiv="Content-Security-Policy", content=policy(script, style)),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="referrer", content="no-referrer"),
        el("meta", name="robots", content="noindex"),
        el("meta", name="generator", content=f"pytest-a2a-bench {__version__}"),
        el("title", f"{name} \u2013 pytest-a2a-bench"),
        el("style", verbatim(style)),
    )
    # At the end of the body: the elements that it fills are there then.
    body = el("body", _body(contents), el("script", verbatim(script)))
    return f"<!doctype html>\n{el('html', head, body, lang='en')}\n"


def policy(script: str, style: str) -> str:
    """Return the content security policy that lets exactly this script and this style in."""
    rules = (
        "default-src 'none'",
        f"script-src '{_digest(script)}'",
        f"style-src '{_digest(style)}'",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
    return "; ".join(rules)


def _body(contents: Contents) -> Html:
    sections: list[tuple[str, str, Html]] = [("verdict", "Verdict", overview.verdict(contents))]
    if contents.comparison is not None:
        compared = comparison.section(contents.comparison, contents.baseline_name)
        sections.append(("baseline", "Baseline", compared))
    if contents.compared:
        sections.append(("agents", "Agents", comparison.agents_section(contents.compared)))
    if contents.trials:
        sections.append(("domains", "Domains", figures.by_domain(contents.trials)))
        sections.append(("figures", "Charts", figures.reliability_and_cost(contents.trials)))
    if contents.checks:
        sections.append(("conformance", "Conformance", conformance.section(contents.checks, contents.explanations)))
    if contents.trials:
        sections.append(("trials", "Trials", explorer.section(contents.trials)))
    return join(
        [
            el("a", "Skip to the trials", href="#trials", class_="skip") if contents.trials else None,
            _bar((id, name) for id, name, _ in sections),
            el("main", overview.header(contents), [markup for _, _, markup in sections], id="main"),
            explorer.viewer(),
            *_data(contents),
        ]
    )


def _bar(links: Iterable[tuple[str, str]]) -> Html:
    return el(
        "div",
        el("nav", [el("a", name, href=f"#{id}") for id, name in links], aria_label="Sections"),
        el("button", "Keys", type="button", id="show-keys", aria_haspopup="dialog"),
        el("button", "Dark", type="button", id="theme"),
        class_="top-bar",
    )


def _data(contents: Contents) -> list[Html]:
    rows = [records.row(r) for r in contents.trials]
    # Each chunk is made while records are read: they are not all held as JSON at once.
    found = list(explorer.chunk_elements(records.detail(r) for r in contents.trials))
    data = {"rows": rows, "chunks": [held for _, held in found], "states": records.STATES}
    return [explorer.data_element("data", data), *(chunk for chunk, _ in found)]


@cache
def _asset(names: tuple[str, ...]) -> str:
    folder = files("pytest_a2a_bench.reports.html") / "assets"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
