"""Markup that is escaped because there is no other way to make it, and numbers as people read them (pure)."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import TypeAlias

from pytest_a2a_bench.redact import sanitise

_VOID = frozenset({"meta", "input", "br", "hr", "link"})


# A type, so that escaped and raw text cannot be mixed up without mypy noticing.
class Html(str):
    """Text that is markup already; only :func:`el` and :func:`verbatim` make it."""

    __slots__ = ()


Child: TypeAlias = "str | int | float | Iterable[Child] | None"
Attribute: TypeAlias = "str | int | float | bool | None"


def el(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """Return an element.

    :param children: markup stays as it is; all other text is sanitised and escaped; None is left out.
    :param attributes: ``class_`` is ``class``, ``aria_label`` is ``aria-label``; None and False are left out.
    """
    start = f"<{name}{''.join(_attribute(k, v) for k, v in attributes.items())}>"
    if name in _VOID:
        return Html(start)
    return Html(f"{start}{join(children)}</{name}>")


def join(children: Iterable[Child]) -> Html:
    """Return children one after the other, as markup."""
    return Html("".join(_child(c) for c in children))


def verbatim(text: str) -> Html:
    """Return text as markup, as it is: only for what is ours or was made safe for its place."""
    return Html(text)


def _child(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return child
    if isinstance(child, str):
        # sanitise takes control characters out, which escaping keeps.
        return html.escape(sanitise(child))
    if isinstance(child, (int, float)):
        return html.escape(str(child))
    return "".join(_child(c) for c in child)


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    # Names end in an underscore where Python has the word.
    written = _ATTRIBUTES.get(name) or name.rstrip("_").replace("_", "-")
    if value is True:
        return f" {written}"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f' {written}="{html.escape(sanitise(text))}"'


# SVG's names have capitals, HTML's have none.
_ATTRIBUTES = {"viewBox": "viewBox", "preserveAspectRatio": "preserveAspectRatio"}


def rate(value: float | None) -> str:
    """Return a rate as per cent: ``64 %``."""
    return "\u2013" if value is None else f"{value * 100:.0f} %"


def seconds(value: float | None) -> str:
    """Return seconds with the unit that suits them."""
    if value is None:
        return "\u2013"
    # Three digits below a tenth, so that fast turns can be told apart.
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
