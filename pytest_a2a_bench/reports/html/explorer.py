"""The table of trials and the viewer, and the data from which the page's script fills them (pure).

The data are JSON that cannot end its element; of what the viewer shows, in compressed chunks that are read on demand.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from markupsafe import Markup

from pytest_a2a_bench.model import TrialResult
from pytest_a2a_bench.reports.html import records
from pytest_a2a_bench.reports.html.markup import el

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
_KEYS = (
    ("/", "search"),
    ("j, k", "next and previous trial"),
    ("Enter", "open the trial"),
    ("Esc", "close"),
    ("[ and ]", "previous and next page"),
    ("t", "light or dark"),
    ("?", "these keys"),
)
CHUNK = 256 * 1024
"""Characters of JSON in one chunk: small enough to be opened at once, large enough to compress well."""

# < and > could end the element, & begins an entity, and two line ends are none in JSON.
_UNSAFE = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def section(trials: Sequence[TrialResult]) -> Markup:
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


def viewer() -> Markup:
    """Return the empty dialogs: one trial, and the keys."""
    keys = [el("div", el("dt", el("kbd", key)), el("dd", what)) for key, what in _KEYS]
    return el(
        "div",
        el(
            "dialog",
            el(
                "div",
                el("h2", id="viewer-title", tabindex="-1"),
                el(
                    "div",
                    el("button", "Previous", type="button", id="viewer-previous"),
                    el("button", "Next", type="button", id="viewer-next"),
                    el("button", "Close", type="button", id="viewer-close"),
                    class_="buttons",
                ),
                class_="viewer-head",
            ),
            el("div", id="viewer-body", tabindex="0", role="region", aria_labelledby="viewer-title"),
            id="viewer",
            aria_labelledby="viewer-title",
        ),
        el(
            "dialog",
            el("h2", "Keys", id="keys-title"),
            el("dl", keys),
            el("label", el("input", type="checkbox", id="keys-on", checked=True), " Single keys work"),
            el("div", el("button", "Close", type="button", id="keys-close"), class_="buttons"),
            id="keys",
            aria_labelledby="keys-title",
        ),
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


def data_element(id: str, value: Any) -> Markup:
    """Return an element that holds JSON and is never run."""
    return el("script", Markup(safe_json(value)), type="application/json", id=id)


def chunks(records: Iterable[Any]) -> Iterator[tuple[str, int]]:
    """Yield some records each, compressed, and how many these are."""
    held: list[str] = []
    size = 0
    for record in records:
        text = safe_json(record)
        held.append(text)
        size += len(text)
        if size >= CHUNK:
            yield _packed(held), len(held)
            held, size = [], 0
    if held:
        yield _packed(held), len(held)


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
