"""The files that the conformance commands write, as they are read again and described by their schemas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_a2a_bench.conformance import report
from pytest_a2a_bench.conformance.finding import Finding, Level
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model.keys import Count, Seconds
from pytest_a2a_bench.results.store import StoredForm


@dataclass(frozen=True, slots=True)
class StoredWaiver:
    """The waiver for a check, whether it was needed or not."""

    reason: str
    expired: bool


@dataclass(frozen=True, slots=True)
class StoredCheck:
    """The result of one check.

    :param spec: version and section of the specification.
    :param requirement: what it demands.
    :param binding: the binding that it was checked on; ``card`` for the card.
    :param cause: the check that explains this one, such as ``1.0/CARD-007[GRPC]``; empty where it stands for itself.
    :param explains: a line for each check that this one explains.
    """

    id: str
    version: str
    group: str
    level: Level
    binding: str
    status: report.Status
    spec: str = ""
    requirement: str = ""
    reason: str = ""
    cause: str = ""
    explains: tuple[str, ...] = ()
    waiver: StoredWaiver | None = None
    seconds: Seconds = 0.0
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredReport:
    """The report on one agent."""

    endpoint: str
    agent: str
    results: tuple[StoredCheck, ...]
    interfaces: tuple[str, ...] = ()
    tool: Mapping[str, Any] | None = None
    strict: bool = False
    seconds: Seconds = 0.0
    counts: Mapping[report.Status, Count] | None = None
    levels: Mapping[str, str] | None = None
    removable_waivers: tuple[str, ...] = ()


REPORT = StoredForm(
    StoredReport,
    " is not a conformance report",
    "make one with: a2a-bench check URL --format json -o FILE",
    ConfigurationError,
    version=report.SCHEMA_VERSION,
    schema=report.SCHEMA,
)
