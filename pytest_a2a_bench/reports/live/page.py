"""The page around a report that grows: how far the run is, what is being held, and what finished last (pure).

It is made of the report's parts: the same styles, and the same script draws messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from pytest_a2a_bench.redact import one_line
from pytest_a2a_bench.reports.html.markup import el
from pytest_a2a_bench.reports.html.page import asset, policy

_SCRIPTS = ("dom.js", "transcript.js", "live.js")
_STYLES = ("page.css", "viewer.css", "live.css")
_POLICY = ("frame-src 'self'", "connect-src 'self'", "frame-ancestors 'none'")


def shell(told: Mapping[str, Any]) -> tuple[str, str]:
    """Return the page and its content security policy.

    It is filled with what is known now, so that it says the truth without JavaScript, too, and reloads itself then.

    :param told: as :meth:`.Watched.look` returns it.
    """
    script, style = asset(_SCRIPTS), asset(_STYLES)
    name = str(told["name"] or "a run")
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="referrer", content="no-referrer"),
        el("title", f"{name} - a2a-bench view"),
        el("noscript", el("meta", http_equiv="refresh", content="5")) if told["running"] else None,
        el("style", Markup(style)),
    )
    body = el(
        "body",
        _header(name, told),
        el("main", _tabs(), _now(told), _report(told)),
        el("script", Markup(script)),
        class_="live",
        data_done=told["done"],
    )
    return f"<!doctype html>\n{el('html', head, body, lang='en')}\n", policy(script, style, *_POLICY)


def _header(name: str, told: Mapping[str, Any]) -> Markup:
    most = max(1, told["total"])
    return el(
        "header",
        el("h1", name),
        el("progress", id="bar", max=most, value=told["done"], aria_label="Finished trials"),
        el("span", told["line"], id="line"),
        # The line changes every second; this one is read aloud, so it changes when a trial ends.
        el("span", id="told", role="status", class_="hidden"),
        el("button", "Dark", type="button", id="theme"),
    )


def _tabs() -> Markup:
    return el(
        "div",
        el("button", "Now", type="button", role="tab", id="tab-now", aria_controls="now", aria_selected="true"),
        el(
            "button", "Report", type="button", role="tab", id="tab-report",
            aria_controls="reported", aria_selected="false", tabindex="-1",
        ),
        class_="tabs",
        role="tablist",
        aria_label="What to show",
        hidden=True,
    )  # fmt: skip


def _now(told: Mapping[str, Any]) -> Markup:
    held = [f"{each['key']}: {each['messages']} messages, {each['seconds']:.0f} s" for each in told["now"]]
    return el(
        "section",
        el(
            "div",
            _list("In flight", "held", held, "Nothing is being held."),
            _list("Floors", "floors", told["floors"], "This run has none."),
            _list("Why trials missed", "why", told["why"], "No trial missed so far."),
            _list("Finished last", "last", told["last"], "No trial has finished."),
            class_="beside",
        ),
        el(
            "div",
            el("h2", "Conversation", id="talk-title"),
            el("p", id="talk-state", class_="note"),
            el("div", id="briefing"),
            el("div", id="talk", class_="talk", role="log", aria_labelledby="talk-title"),
            class_="conversation",
            id="conversation",
            tabindex="0",
            role="region",
            aria_label="The conversation that was chosen",
        ),
        id="now",
        role="tabpanel",
        aria_labelledby="tab-now",
    )


def _list(title: str, id: str, texts: Sequence[str], empty: str) -> Markup:
    return el(
        "div", el("h2", title), el("ul", [el("li", text) for text in texts], id=id), el("p", empty, class_="none")
    )


def _report(told: Mapping[str, Any]) -> Markup:
    return el(
        "section",
        el("button", type="button", id="more", hidden=True),
        el("iframe", id="report", src=f"report?{told['done']}", title="Report"),
        id="reported",
        role="tabpanel",
        aria_labelledby="tab-report",
    )


def waiting(why: str) -> str:
    """Return what stands in the report's place while there is none."""
    style = asset(_STYLES)
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=policy("", style)),
        el("title", "No report yet"),
        el("style", Markup(style)),
    )
    body = el("body", el("main", el("p", one_line(why), class_="note")))
    return f"<!doctype html>\n{el('html', head, body, lang='en')}\n"
