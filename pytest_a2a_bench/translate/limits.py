"""What is cut off a reply that goes beyond ``--a2a-reply-limits``, and the findings that say so. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_a2a_bench.model import DialectFinding, Part
from pytest_a2a_bench.model.bounds import Bounds


def limit_finding(bounds: Bounds, name: str, message: str) -> DialectFinding:
    """Return a finding that names the bound; its rule is ``limit-NAME``."""
    return DialectFinding(f"limit-{name}", f"{message} ({bounds.show(name)})")


def cut_parts(parts: Sequence[Part], bounds: Bounds) -> tuple[Sequence[Part], list[DialectFinding]]:
    """Return the parts that are read, and what is to be said about the others."""
    if len(parts) <= bounds.parts:
        return parts, []
    message = f"the reply has {len(parts)} parts; only the first {bounds.parts} are read"
    return parts[: bounds.parts], [limit_finding(bounds, "parts", message)]


def too_slow(bounds: Bounds) -> DialectFinding:
    """Return what is to be said about a reply that took too long to read."""
    message = f"finding the calls in the reply took more than {bounds.cpu:g} s of CPU time; the rest of it is not read"
    return limit_finding(bounds, "cpu", message)


def too_deep(bounds: Bounds) -> DialectFinding:
    """Return what is to be said about a reply with something in it that is nested too deeply."""
    message = f"the reply holds JSON that is nested deeper than {bounds.depth} levels; that is not read"
    return limit_finding(bounds, "depth", message)
