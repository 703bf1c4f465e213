"""Where the recorded answers of an org are that stand in for it."""

from __future__ import annotations

from pathlib import Path

from pytest_a2a_bench.benchmarks.crmarena.options import CrmOptions, recorded_at
from pytest_a2a_bench.benchmarks.crmarena.org.recorded import place_of
from pytest_a2a_bench.benchmarks.crmarena.sources.files import org_of
from pytest_a2a_bench.settings import Settings


def recorded_place(domain: str, settings: Settings) -> Path | None:
    """Return the directory of the answers for a domain's org, or None where nothing was recorded."""
    directory = recorded_at(CrmOptions.of(settings).org) or settings.replay
    place = place_of(directory, org_of(domain)) if directory else None
    # An agent may be recorded without an org beside it.
    return place if place is not None and place.is_dir() else None
