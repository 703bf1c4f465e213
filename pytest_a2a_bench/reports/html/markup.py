"""HTML elements on top of ``markupsafe``, and numbers in the form that pages show (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from markupsafe import Markup, escape

from pytest_a2a_bench.text import sanitise

Child: TypeAlias = "str | int | float | Iterable[Child] | None"
Attribute: TypeAlias = "str | int | float | bool | None"

_VOID = frozenset({"meta", "input", "br", "hr", "link"})
_CASED = {"viewBox": "viewBox", "preserveAspectRatio": "preserveAspectRatio"}
"""Names of SVG attributes, which have capitals; those of HTML have none."""


def el(name: str, /, *children: Child, **attributes: Attribute) -> Markup:
    """Return an element.

    :param children: markup stays as it is; all other text is sanitised and escaped; None is left out.
    :param attributes: ``class_`` is ``class``, ``aria_label`` is ``aria-label``; None and False are left out.
    """
    start = Markup(f"<{name}{''.join(_attribute(k, v) for k, v in attributes.items())}>")
    return start if name in _VOID else Markup(f"{start}{join(children)}</{name}>")


def join(children: Iterable[Child]) -> Markup:
    """Return children one after the other, as markup."""
    return Markup("").join(map(_child, children))


def _child(child: Child) -> Markup:
    if child is None or isinstance(child, Markup):
        return child or Markup("")
    if isinstance(child, str | int | float):
        # Escaping keeps control characters, and sanitise removes them.
        return escape(sanitise(str(child)))
    return join(child)


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    # Names end in an underscore where Python has the word.
    written = _CASED.get(name) or name.rstrip("_").replace("_", "-")
    if value is True:
        return f" {written}"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f' {written}="{escape(sanitise(text))}"'


def table(titles: Iterable[Child], rows: Iterable[Child], class_: str | None = None) -> Markup:
    """Return a table.

    :param titles: texts, or elements where a title needs attributes.
    :param rows: ``tr`` elements.
    """
    head = [title if isinstance(title, Markup) else el("th", title, scope="col") for title in titles]
    return el("table", el("thead", el("tr", head)), el("tbody", rows), class_=class_)


def scroller(label: str, content: Markup) -> Markup:
    """Return content that scrolls sideways by itself, also by keyboard."""
    return el("div", content, class_="scroller", tabindex="0", role="region", aria_label=label)


def rate(value: float | None) -> str:
    """Return a rate as per cent: ``64 %``."""
    return "\u2013" if value is None else f"{value * 100:.0f} %"


def seconds(value: float | None) -> str:
    """Return seconds in milliseconds, seconds or minutes."""
    if value is None:
        return "\u2013"
    # Three digits below a tenth, so that fast turns differ.
    if value < 0.0995:
        return f"{value * 1000:.3g} ms"
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 120:
        return f"{value:.3g} s"
    return f"{value / 60:.3g} min"


def number(value: float | None, digits: int = 1) -> str:
    """Return a number with a fixed number of digits."""
    return "\u2013" if value is None else f"{value:.{digits}f}"


def points(change: float) -> str:
    """Return the change of a rate in percentage points, with its sign."""
    # A change of -0.2 points is no change, and has no sign.
    rounded = round(change * 100)
    return "0" if rounded == 0 else f"{rounded:+d}".replace("-", "\u2212")
