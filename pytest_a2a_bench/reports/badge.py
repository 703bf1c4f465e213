"""A badge for a readme: the verdict on one agent as a small SVG (pure)."""

from __future__ import annotations

from html import escape

from pytest_a2a_bench.conformance.report import Compliance, Report, compliance

_GREEN, _YELLOW, _RED, _GREY = "#2e7d32", "#9a6700", "#c62828", "#616161"
_COLOURS = {
    "fully conformant": _GREEN,
    "conformant": _GREEN,
    "not conformant": _RED,
    "not judged completely": _YELLOW,
}
# Of a sans-serif letter at 11 pixels; the text is fitted to the width that this gives.
_LETTER = 6.2
_PADDING = 12
_HEIGHT = 20


def render(report: Report) -> str:
    """Return the badge: the versions that were judged, and the worst verdict among them."""
    levels = compliance(report.rows, report.planned)
    label = "A2A " + ", ".join(level.version for level in levels) if levels else "A2A"
    worst = min(levels, key=_rank) if levels else None
    verdict = worst.verdict if worst is not None else "not judged"
    # A good verdict about a part must not be read as one about the whole.
    text = f"{verdict} ({worst.scope})" if worst is not None and worst.scope and "not" not in verdict else verdict
    return _svg(label, text, _COLOURS.get(verdict, _GREY))


def _rank(level: Compliance) -> int:
    order = ("not conformant", "not judged", "not judged completely", "conformant", "fully conformant")
    return order.index(level.verdict)


def _svg(label: str, text: str, colour: str) -> str:
    left, right = (round(len(words) * _LETTER) + _PADDING for words in (label, text))
    width = left + right
    words = escape(f"{label}: {text}")

    def shown(content: str, start: int, space: int) -> str:
        length = space - _PADDING
        return (
            f'<text x="{start + space / 2:g}" y="14" textLength="{length}" lengthAdjust="spacingAndGlyphs">'
            f"{escape(content)}</text>"
        )

    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{_HEIGHT}" role="img" aria-label="{words}">'
        f"<title>{words}</title>"
        f'<clipPath id="r"><rect width="{width}" height="{_HEIGHT}" rx="3"/></clipPath>'
        f'<g clip-path="url(#r)"><rect width="{left}" height="{_HEIGHT}" fill="#3c3c3c"/>'
        f'<rect x="{left}" width="{right}" height="{_HEIGHT}" fill="{colour}"/></g>'
        f'<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
        f"{shown(label, 0, left)}{shown(text, left, right)}</g></svg>\n"
    )
