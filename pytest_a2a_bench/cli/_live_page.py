"""The page around a report that grows: how far the run is, and what finished last (pure)."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from html import escape

from pytest_a2a_bench.redact import one_line

_STYLE = """
:root { color-scheme: light dark; font: 15px/1.4 system-ui, sans-serif }
body { margin: 0; display: flex; flex-direction: column; height: 100vh }
header { padding: .5rem 1rem; display: flex; flex-wrap: wrap; gap: .25rem 1rem; align-items: center;
  border-bottom: 1px solid color-mix(in srgb, currentColor 25%, transparent) }
h1 { font-size: 1rem; margin: 0 }
progress { width: 12rem; max-width: 100% }
#last { flex-basis: 100%; margin: 0; padding: 0; list-style: none; display: flex; gap: 1rem; overflow-x: auto;
  white-space: nowrap; font-size: .85rem; scrollbar-width: thin }
button { font: inherit }
main { flex: 1; display: flex }
iframe { flex: 1; border: 0 }
"""

_SCRIPT = """
const byId = (id) => document.getElementById(id);
let shown = Number(document.body.dataset.done);
const frame = byId("report");
const refresh = () => {
  shown = Number(document.body.dataset.done); frame.src = "report?" + shown; byId("more").hidden = true };
byId("more").addEventListener("click", refresh);
let source;
const follow = () => {
source = new EventSource("events");
source.onmessage = (event) => {
  const told = JSON.parse(event.data);
  byId("line").textContent = told.line;
  byId("bar").max = told.total; byId("bar").value = told.done;
  byId("last").replaceChildren(...told.last.map((text) => {
    const item = document.createElement("li"); item.textContent = text; return item; }));
  document.body.dataset.done = told.done;
  const more = told.done - shown;
  if (more && (shown === 0 || more < 0 || !told.running)) refresh();
  byId("more").hidden = told.done === shown;
  byId("more").textContent = `Show ${told.done - shown} more`;
  // Whoever leaves the page open sees the next run, too.
  if (!told.running) { source.close(); setTimeout(() => follow(), 5000) }
};
source.onerror = () => { byId("line").textContent += " (no connection to a2a-bench view)"; source.close() };
};
follow();
"""


def shell(name: str, line: str, done: int, total: int, last: Sequence[str], *, running: bool) -> tuple[str, str]:
    """Return the page and its content security policy.

    It is filled with what is known now, so that it says the truth without JavaScript, too, and reloads itself then.
    """
    items = "".join(f"<li>{escape(text)}</li>" for text in last)
    again = '<noscript><meta http-equiv="refresh" content="5"></noscript>' if running else ""
    page = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer"><title>{escape(name)} - a2a-bench view</title>{again}
<style>{_STYLE}</style></head>
<body data-done="{done}"><header><h1>{escape(name)}</h1>
<progress id="bar" max="{max(1, total)}" value="{done}" aria-label="Finished trials"></progress>
<span id="line" role="status">{escape(line)}</span><button type="button" id="more" hidden></button>
<ul id="last" aria-label="Finished last" tabindex="0">{items}</ul></header>
<main><iframe id="report" src="report?{done}" title="Report"></iframe></main>
<script>{_SCRIPT}</script></body></html>
"""
    rules = (
        "default-src 'none'",
        f"script-src '{_digest(_SCRIPT)}'",
        f"style-src '{_digest(_STYLE)}'",
        "frame-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
    return page, "; ".join(rules)


def waiting(why: str) -> str:
    """Return what stands in the report's place while there is none."""
    return f"<!doctype html><meta charset='utf-8'><title>Waiting</title><p>{escape(one_line(why))}</p>"


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
