"""The report page: markup, style, script and data in one file that needs nothing else.

The script fills the table of trials and the viewer from JSON in the page. The viewer's data are in compressed chunks,
which are unpacked on demand.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup

from pytest_a2a_bench import __version__
from pytest_a2a_bench.model import TrialResult
from pytest_a2a_bench.reports.contents import Contents
from pytest_a2a_bench.reports.html import charts, records, sections
from pytest_a2a_bench.reports.html.charts import el, join
from pytest_a2a_bench.reports.trial_text import clusters, rerun_command
from pytest_a2a_bench.results.store import write_atomically
from pytest_a2a_bench.text import sanitise

__all__ = ["Contents", "render", "write"]

_SCRIPTS = ("dom.js", "data.js", "table.js", "transcript.js", "viewer.js", "keys.js")
# Read from the package, so that the page needs no network.
_STYLES = ("page.css", "trials.css", "viewer.css")


def write(path: Path, contents: Contents) -> Path:
    """Write a page whole or not at all, readable by its owner only: it holds what was said.

    :return: the page.
    :raises OSError: if it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, render(contents))
    return path


def render(contents: Contents) -> str:
    """Return the page.

    It asks the network for nothing, and its policy forbids it to; only the page's own script and style run, which the
    policy knows by their hashes.
    """
    # Sorted once; table, chunks and viewer count on one order.
    ordered = sorted(contents.trials, key=records.order)
    contents = dataclasses.replace(contents.with_known_endpoint(), trials=ordered)
    script, style = asset(_SCRIPTS), asset(_STYLES)
    return Markup(asset(("page.html",))).format(
        # Before the styles: a policy holds for what follows it.
        policy=policy(script, style),
        version=__version__,
        title=sanitise(contents.agent or contents.endpoint or "results"),
        style=Markup(style),
        body=_body(contents),
        # At the end of the body: the elements that it fills are there then.
        script=Markup(script),
    )


def policy(script: str, style: str) -> str:
    """Return the content security policy that lets exactly this script and this style in."""
    rules = (
        "default-src 'none'",
        f"script-src '{digest(script)}'",
        f"style-src '{digest(style)}'",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
    return "; ".join(rules)


def _body(contents: Contents) -> Markup:
    reasons = clusters(contents.trials)
    found: list[tuple[str, str, Markup]] = []
    if contents.trials or contents.verdict is not None or not contents.checks:
        found.append(("verdict", "Verdict", sections.verdict(contents, reasons)))
    if contents.comparison is not None:
        compared = sections.against_baseline(contents.comparison, contents)
        found.append(("baseline", "Baseline", compared))
    if reasons:
        found.append(("why", "Why", sections.reasons(reasons)))
    past = sections.over_time(contents.history)
    if past is not None:
        found.append(("past", "Over time", past))
    if contents.compared:
        found.append(("agents", "Agents", sections.against_each_other(contents.compared)))
    if contents.trials:
        found.append(("domains", "Domains", charts.by_domain(contents.trials)))
        found.append(("figures", "Charts", charts.reliability_and_cost(contents.trials)))
    if contents.checks:
        found.append(("conformance", "Conformance", sections.conformance(contents.checks, contents.explanations)))
    if contents.trials:
        found.append(("trials", "Trials", _trials(contents.trials)))
    first, *rest = (markup for _, _, markup in found)
    return join(
        [
            el("a", "Skip to the trials", href="#trials", class_="skip") if contents.trials else None,
            _bar((id, name) for id, name, _ in found),
            # A reader sees verdict, rate and cost first.
            el("main", sections.header(contents), first, sections.conditions(contents), rest, id="main"),
            Markup(asset(("viewer.html",))),
            *_data(contents),
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


def _data(contents: Contents) -> list[Markup]:
    rows = [records.row(r) for r in contents.trials]
    packed: list[Markup] = []
    counts: list[int] = []
    # Each chunk is made while records are read: they are not all in memory as JSON at once.
    for number, (text, count) in enumerate(chunks(_detail(contents, r) for r in contents.trials)):
        counts.append(count)
        packed.append(chunk_element(text, f"chunk-{number}"))
    return [_data_element("data", {"rows": rows, "chunks": counts, "states": records.STATES}), *packed]


def _detail(contents: Contents, result: TrialResult) -> dict[str, Any]:
    """Return a trial for the viewer, with its command and the same trial of the baseline."""
    found = records.detail(result)
    key = str(result.key)
    if key in contents.nodeids:
        # Of several agents no single option names the one.
        endpoint = "" if result.key.agent else contents.endpoint
        found["run"] = rerun_command(contents.nodeids[key], result, endpoint)
    other = contents.beside.get(key)
    if other is not None:
        found["beside"] = records.beside(other, contents.baseline_name)
    return found


@cache
def asset(names: tuple[str, ...]) -> str:
    """Return scripts, styles or a page of the package as one text."""
    folder = files("pytest_a2a_bench.reports.html") / "assets"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def digest(text: str) -> str:
    """Return the hash by which a policy allows a script or a style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


# --- the table of trials and the viewer -------------------------------------------------------------------------------

_COLUMNS = (
    ("s", "Result", False),
    ("k", "Trial", False),
    ("r", "Reward", False),
    ("w", "Why", True),
    ("n", "Turns", True),
    ("t", "Time", True),
    ("p", "Turn p50", True),
    ("u", "Cost", True),
)
_NUMBERS = "rntpu"
CHUNK = 256 * 1024
"""Characters of JSON in one chunk: small enough to be opened at once, large enough to compress well."""

# < and > could end the element, & begins an entity, and two line ends are none in JSON.
_UNSAFE = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def _trials(trials: Sequence[TrialResult]) -> Markup:
    """Return the controls and the empty table."""
    # A column of dashes tells nothing.
    columns = [c for c in _COLUMNS if c[0] != "u" or any(r.cost is not None for r in trials)]
    table = el(
        "table",
        el("caption", "Trials", class_="hidden"),
        el("thead", el("tr", [_title(*c) for c in columns])),
        el("tbody"),
        id="trials-table",
    )
    return el(
        "section",
        el("h2", "Trials"),
        _controls(trials),
        el("p", id="count", role="status", class_="note"),
        el("noscript", el("p", "The table of trials and the transcripts need JavaScript; everything above does not.")),
        table,
        el("nav", id="pages", aria_label="Pages of the table"),
        id="trials",
    )


def _controls(trials: Sequence[TrialResult]) -> Markup:
    found = Counter(records.state(r) for r in trials)
    chips = [
        el(
            "button",
            name,
            el("span", f"{found[s]:,}"),
            type="button",
            class_=f"chip {s}",
            data_state=s,
            aria_pressed="false",
        )
        for s, name in records.STATES.items()
        if found[s]
    ]
    return el(
        "div",
        el("div", chips, class_="chips", role="group", aria_label="Results to show"),
        el(
            "div",
            _choice("domain", "Domain", sorted({records.domain(r) for r in trials})),
            _choice("category", "Category", sorted({records.category(r) for r in trials} - {""})),
            el(
                "label",
                el("span", "Search"),
                el("input", type="search", id="search", placeholder="task, tool, error …", autocomplete="off"),
            ),
            el("label", el("input", type="checkbox", id="deep"), "in transcripts too", class_="check"),
            class_="fields",
        ),
        class_="controls",
        role="search",
        aria_label="Find trials",
    )


def _choice(id: str, name: str, values: Sequence[str]) -> Markup | None:
    # With a single value there is nothing to choose.
    if len(values) < 2:
        return None
    options = [el("option", "all", value=""), *(el("option", v, value=v) for v in values)]
    return el("label", el("span", name), el("select", options, id=id))


def _title(name: str, text: str, is_wide: bool) -> Markup:
    classes = " ".join(c for c, wanted in (("num", name in _NUMBERS), ("wide", is_wide)) if wanted)
    button = el("button", text, type="button", data_sort=name)
    return el("th", button, scope="col", class_=classes or None, data_column=name, aria_sort="none")


# Values of agents end here: this is what keeps them data.
def safe_json(value: Any) -> str:
    """Return JSON that no parser of HTML or of old JavaScript takes for anything else.

    Numbers that JSON does not have become null.
    """
    return json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":")).translate(_UNSAFE)


def _data_element(id: str, value: Any) -> Markup:
    """Return an element that holds JSON and is never run."""
    return el("script", Markup(safe_json(value)), type="application/json", id=id)


def chunks(records: Iterable[Any]) -> Iterator[tuple[str, int]]:
    """Yield some records each, compressed, and how many these are."""
    chunk: list[str] = []
    size = 0
    for record in records:
        text = safe_json(record)
        chunk.append(text)
        size += len(text)
        if size >= CHUNK:
            yield _packed(chunk), len(chunk)
            chunk, size = [], 0
    if chunk:
        yield _packed(chunk), len(chunk)


def _packed(texts: list[str]) -> str:
    # base64, as compressed bytes are no text.
    return base64.b64encode(zlib.compress(f"[{','.join(texts)}]".encode("utf-8", "replace"), 6)).decode()


def chunk_element(packed: str, id: str) -> Markup:
    """Return an element that holds a chunk and is never run."""
    return el("script", Markup(packed), type="text/plain", id=id)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        # nan and inf minus themselves are not 0.
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return value
