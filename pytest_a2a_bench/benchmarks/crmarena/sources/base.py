"""What a source is, and how ``--a2a-crm-data`` names one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pytest_a2a_bench.benchmarks.crmarena.tasks import CrmTask, Provenance

if TYPE_CHECKING:
    from pytest_a2a_bench.benchmarks.crmarena.org.base import Org
    from pytest_a2a_bench.benchmarks.crmarena.org.schema import OrgSchema

_HUB = re.compile(r"hub(?:@(?P<revision>[^:@\s]+))?(?::(?P<rows>.+))?", re.DOTALL)


class Source(Protocol):
    """A domain's tasks and rows. May be asked from several threads at once."""

    domain: str

    def tasks(self) -> tuple[CrmTask, ...]:
        """Return the tasks, golds included, in the order of the source.

        :raises ConfigurationError: if a row is no task.
        """
        ...

    def task_ids(self) -> tuple[tuple[str, str], ...]:
        """Return each task's id and category, as cheaply as the source allows."""
        ...

    def org(self) -> Org:
        """Return the org with the domain's rows; the same one each time, closed with the source.

        :raises ConfigurationError: if the source has tasks but no rows.
        """
        ...

    @property
    def schema(self) -> OrgSchema:
        """What the agent may know of the org."""
        ...

    @property
    def provenance(self) -> Provenance:
        """Where it all came from; files that were not read yet are read for it."""
        ...

    def close(self) -> None:
        """Let go of the org, if it was opened."""
        ...


class DataSpec(NamedTuple):
    """What ``--a2a-crm-data`` says.

    :param hub: whether tasks and schema come from the hub.
    :param directory: the directory; for the hub the one that has the rows, or None.
    """

    hub: bool
    directory: Path | None
    revision: str | None = None


def parse_data(text: str | None) -> DataSpec | None:
    """Read ``DIR``, ``hub``, ``hub@REVISION``, and ``hub:DIR`` or ``hub@REVISION:DIR`` with the rows in DIR.

    A directory that is really called ``hub`` is written ``./hub``.
    """
    if not text:
        return None
    hub = _HUB.fullmatch(text)
    if hub is None:
        return DataSpec(False, Path(text).expanduser())
    rows = hub["rows"]
    return DataSpec(True, Path(rows).expanduser() if rows else None, hub["revision"])
