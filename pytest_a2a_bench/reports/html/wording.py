"""Numbers as people read them (pure)."""

from __future__ import annotations

from pytest_a2a_bench.results.stats import count as count


def rate(value: float | None) -> str:
    """Return a rate as per cent: ``64 %``."""
    return "\u2013" if value is None else f"{value * 100:.0f} %"


def seconds(value: float | None) -> str:
    """Return seconds with the unit that suits them."""
    if value is None:
        return "\u2013"
    if value < 0.0995:
        return f"{value * 1000:.3g} ms"
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 120:
        return f"{value:.3g} s"
    return f"{value / 60:.3g} min"


def dollars(value: float | None) -> str:
    """Return dollars, with as many digits as it takes to see anything."""
    if value is None:
        return "\u2013"
    return f"${value:.2f}" if value >= 1 or value == 0 else f"${value:.2g}" if value >= 0.0001 else f"${value:.1e}"


def number(value: float | None, digits: int = 1) -> str:
    """Return a number with a fixed number of digits."""
    return "\u2013" if value is None else f"{value:.{digits}f}"


def points(change: float) -> str:
    """Return the change of a rate in percentage points, with its sign."""
    rounded = round(change * 100)
    return "0" if rounded == 0 else f"{rounded:+d}".replace("-", "\u2212")
