"""Markup that is escaped because there is no other way to make it (pure)."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import TypeAlias

from pytest_a2a_bench.redact import sanitise

_VOID = frozenset({"meta", "input", "br", "hr", "link"})


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
        return html.escape(sanitise(child))
    if isinstance(child, (int, float)):
        return html.escape(str(child))
    return "".join(_child(c) for c in child)


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    written = _ATTRIBUTES.get(name) or name.rstrip("_").replace("_", "-")
    if value is True:
        return f" {written}"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f' {written}="{html.escape(sanitise(text))}"'


_ATTRIBUTES = {"viewBox": "viewBox", "preserveAspectRatio": "preserveAspectRatio"}
