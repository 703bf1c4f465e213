"""A conformance report in JSON, read back as what the page shows (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, get_args

from pytest_a2a_bench.errors import ConfigurationError

if TYPE_CHECKING:
    from pytest_a2a_bench.conformance.report import CheckRow


def read_checks(data: Mapping[str, Any]) -> tuple[list[CheckRow], dict[str, str]]:
    """Return the rows of a report and what is to be said about those that have findings.

    :param data: what ``a2a-bench conformance --format json`` writes.
    :raises ConfigurationError: if it is something else.
    """
    from pytest_a2a_bench.reports.html.protocol import name_of

    try:
        rows = [_row(each) for each in data["results"]]
        texts = {name_of(row): "\n".join(_lines(each)) for row, each in zip(rows, data["results"], strict=True)}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigurationError(
            f"--conformance: not a conformance report ({type(error).__name__}: {error}); "
            "make one with: a2a-bench conformance URL --format json -o FILE"
        ) from error
    return rows, texts


def _row(data: Mapping[str, Any]) -> CheckRow:
    from pytest_a2a_bench.conformance.report import CheckRow, Status

    if data["status"] not in get_args(Status):
        raise ValueError(f"status {data['status']!r}")
    return CheckRow(
        id=str(data["id"]),
        group=str(data["group"]),
        level=str(data["level"]),
        version=str(data["version"]),
        binding=str(data["binding"]),
        status=data["status"],
        reason=str(data.get("reason") or ""),
    )


def _lines(data: Mapping[str, Any]) -> Iterator[str]:
    yield f"{data.get('spec', '')}: {data.get('requirement', '')}"
    if data.get("reason"):
        yield f"reason: {data['reason']}"
    for finding in data.get("findings", ()):
        yield ""
        for name in ("found", "expected", "pointer", "fix"):
            if finding.get(name):
                yield f"{name}: {finding[name]}"
