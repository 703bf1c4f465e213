"""The record of each assessment beside its trials: caller, request, time and outcome.

``assessment.json`` in the assessment's directory. An assessor that was killed resumes from it.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pytest_a2a_bench.model.messages import Finite, Seconds
from pytest_a2a_bench.redact import dump_json
from pytest_a2a_bench.results.store import StoredForm, StoreError, save

log = logging.getLogger(__name__)

NAME = "assessment.json"

State = Literal["waiting", "running", "completed", "failed", "canceled"]
UNFINISHED: tuple[State, ...] = ("waiting", "running")

_NAME = re.compile(r"[0-9A-Za-z_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Record:
    """One assessment.

    :param name: the id of its A2A task, and the name of its directory.
    :param caller: the authenticated caller; empty if the assessor asks for no authentication.
    :param message: the request's A2A message (1.0, JSON).
    :param request: as it was read (``Request.to_json``).
    :param submitted: seconds since 1970, as ``ended``.
    :param summary: the text for the caller: the result, or why there is none.
    :param trace: W3C trace context of the request, or of its first span where it brought none, by header names.
    :param cost: dollars of its trials, as far as they are reported.
    :param errors: how many trials, or checks, could not be evaluated.
    :param failures: how the others failed -> how many, the most frequent first.
    :param result: the numbers of the result, without its trials.
    """

    name: str
    caller: str
    message: Mapping[str, Any]
    request: Mapping[str, Any]
    state: State = "waiting"
    submitted: Seconds = 0.0
    ended: Seconds | None = None
    summary: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)
    score: Finite | None = None
    max_score: Finite | None = None
    trace: Mapping[str, str] = field(default_factory=dict)
    cost: Finite | None = None
    errors: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)

    def write(self, directory: Path) -> None:
        """Write the file; raises StoreError if it cannot be written."""
        save(directory / NAME, dump_json(RECORD.to_json(self)))

    def concluded(self, state: State, summary: str, result: Mapping[str, Any] | None = None) -> Record:
        """Return it with its end."""
        rest = {name: value for name, value in (result or {}).items() if name not in ("results", "task_rewards")}
        return dataclasses.replace(
            self,
            state=state,
            ended=time.time(),
            summary=summary,
            result=rest,
            score=rest.get("score"),
            max_score=rest.get("max_score"),
            cost=rest.get("usage", {}).get("cost_usd"),
            errors=int(rest.get("errors", {}).get("count", 0)),
            failures={name: int(many) for name, many in rest.get("failures", {}).items()},
        )


RECORD = StoredForm(
    Record,
    " is not an assessment's file that this version reads",
    "remove the assessment's directory",
    StoreError,
    schema="a2a-bench/assessment",
)


def read(directory: Path) -> Record:
    """Read the file of one assessment.

    :raises FileNotFoundError: if there is none.
    :raises StoreError: if it cannot be read.
    """
    return RECORD.read(directory / NAME)


def is_name(text: str) -> bool:
    """Return whether a text may be an assessment's name, and so a directory's."""
    return _NAME.fullmatch(text) is not None


class Kept:
    """The records of all assessments in a directory, cached: a file is read when it has changed.

    Safe for threads. Of assessments that have ended, the message and the result are left out: who lists all of
    them wants neither, and they would stay in memory.
    """

    def __init__(self, results: Path) -> None:
        self._results = results
        self._lock = threading.Lock()
        self._known: dict[str, _Known] = {}
        self._unreadable: set[str] = set()

    def all(self) -> list[Record]:
        """Return them, the newest first; records that cannot be read are skipped, and logged once.

        :raises OSError: if the directory is there and cannot be read.
        """
        with self._lock:
            self._known = dict(self._look())
            return sorted((one.record for one in self._known.values()), key=lambda r: r.submitted, reverse=True)

    def _look(self) -> Iterator[tuple[str, _Known]]:
        try:
            names = os.listdir(self._results)
        except FileNotFoundError:
            return
        for name in filter(is_name, names):
            known = self._known.get(name)
            # What has ended does not change any more.
            if known is None or known.record.state in UNFINISHED:
                try:
                    known = self._read(self._results / name / NAME, known)
                except FileNotFoundError:  # it is only being accepted
                    continue
                except (StoreError, OSError) as error:
                    if name not in self._unreadable:
                        log.warning("assessment left out", extra={"assessment": name, "reason": str(error)})
                    self._unreadable.add(name)
                    continue
            yield name, known

    def _read(self, path: Path, known: _Known | None) -> _Known:
        status = path.stat()
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        if known is not None and known.stamp == stamp:
            return known
        record = RECORD.read(path)
        if record.state not in UNFINISHED:
            record = dataclasses.replace(record, message={}, result={})
        return _Known(stamp, record)


class _Known(NamedTuple):
    stamp: tuple[int, int, int]
    record: Record


def remove_old(results: Path, days: float) -> list[str]:
    """Remove the files of assessments that ended at least so many days ago, and return their names."""
    before = time.time() - days * 86_400
    gone = []
    for record in Kept(results).all():
        if record.state not in UNFINISHED and (record.ended or record.submitted) < before and is_name(record.name):
            shutil.rmtree(results / record.name, ignore_errors=True)
            gone.append(record.name)
    return gone
