"""An org on this machine: SOQL and SOSL over an SQLite file in the shape of the official dumps."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
import time
import weakref
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from pytest_a2a_bench.benchmarks.crmarena.org.base import OrgError, QueryResult
from pytest_a2a_bench.benchmarks.crmarena.org.connections import Connection, Connections
from pytest_a2a_bench.benchmarks.crmarena.org.schema import OrgSchema, SObject
from pytest_a2a_bench.benchmarks.crmarena.org.soql import compile_soql
from pytest_a2a_bench.benchmarks.crmarena.org.soql.parser import whole_characters
from pytest_a2a_bench.benchmarks.crmarena.org.soql.records import QueryPlan, envelope
from pytest_a2a_bench.benchmarks.crmarena.org.soql.scope import quote
from pytest_a2a_bench.benchmarks.crmarena.org.sosl import SearchPlan, compile_sosl
from pytest_a2a_bench.benchmarks.crmarena.org.tables import copy_tables
from pytest_a2a_bench.errors import ConfigurationError

#: Rows that one answer may be made of, children included: what one transaction may read on Salesforce.
ROW_LIMIT = 50_000
# Queries of the trials of one task are often the same.
_REMEMBERED = 512


class LocalOrg:
    """An org in an SQLite file. May be asked from several threads at once; reads only.

    The file is copied once, typed and indexed, and never touched again. Beyond its limits a query is refused with
    QUERY_TIMEOUT or OPERATION_TOO_LARGE.

    Use :meth:`open` or :meth:`from_connection`.

    :param path: the copy, which this object owns.
    :param folder: the directory to remove on :meth:`close`.
    """

    def __init__(
        self,
        path: Path,
        folder: Path,
        schema: OrgSchema,
        *,
        name: str,
        today: date | None,
        time_limit: float,
        row_limit: int,
    ) -> None:
        self.name = name
        self.today = today
        self.time_limit = time_limit
        self.row_limit = row_limit
        # A copy of our own: the user's file must stay as it is, and gets typed values and indexes.
        self.path = path
        self._schema = schema
        self._connections = Connections(path, time_limit)
        # By day too: TODAY in a query means another day tomorrow.
        self._soql = lru_cache(_REMEMBERED)(lambda text, day: compile_soql(text, schema, day))
        self._sosl = lru_cache(_REMEMBERED)(lambda text, day: compile_sosl(text, schema, day))
        # Also where nobody calls close: copies of an org are large.
        self._remove = weakref.finalize(self, shutil.rmtree, folder, True)

    @classmethod
    def open(
        cls,
        path: Path,
        schema: OrgSchema,
        *,
        name: str,
        today: date | None = None,
        time_limit: float = 5.0,
        row_limit: int = ROW_LIMIT,
    ) -> LocalOrg:
        """Open an SQLite file with one table per object and columns named like the fields.

        :param today: the day that TODAY means; the real one if None.
        :param time_limit: seconds of CPU time that one query may take.
        :param row_limit: rows that one answer may be made of.
        :raises ConfigurationError: if there is no such file, or it is not such a database.
        """
        if not path.is_file():
            raise ConfigurationError(f"org database {path}: no such file")
        folder = Path(tempfile.mkdtemp(prefix="a2a-org-"))
        # The folder goes with the failure, as nobody would know of it.
        try:
            copy_tables(path, folder / "org.db", schema)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return cls(
            folder / "org.db",
            folder,
            schema,
            name=name,
            today=today,
            time_limit=time_limit,
            row_limit=row_limit,
        )

    @classmethod
    def from_connection(cls, connection: sqlite3.Connection, schema: OrgSchema, **options: Any) -> LocalOrg:
        """Copy the database behind a connection, which may be in memory and stays the caller's.

        :param options: as for :meth:`open`.
        """
        with tempfile.TemporaryDirectory(prefix="a2a-org-") as folder:
            path = Path(folder) / "source.db"
            target = sqlite3.connect(path)
            # backup() copies a database in memory page by page, whatever is in it.
            try:
                connection.backup(target)
            finally:
                target.close()
            return cls.open(path, schema, **options)

    @classmethod
    def from_rows(cls, rows: Mapping[str, Iterable[Mapping[str, Any]]], schema: OrgSchema, **options: Any) -> LocalOrg:
        """Make an org of records in memory.

        :param rows: records by object name; keys are field names.
        :param options: as for :meth:`open`.
        """
        connection = sqlite3.connect(":memory:")
        try:
            for sobject in schema.objects:
                _insert_rows(connection, sobject, list(rows.get(sobject.name, ())))
            connection.commit()
            return cls.from_connection(connection, schema, **options)
        finally:
            connection.close()

    @property
    def schema(self) -> OrgSchema:
        """What objects and fields there are."""
        return self._schema

    def run(self, text: str) -> QueryResult:
        """Answer one query: SOSL if it starts with FIND, otherwise SOQL.

        :raises OrgError: as Salesforce would refuse it, or beyond a limit.
        """
        started, clock = time.perf_counter(), time.thread_time()
        # Half surrogates, which agents send, cannot be stored or compared.
        text = whole_characters(text)
        if text.lstrip()[:4].upper() == "FIND":
            search = self._sosl(text, self._day())
            with self._connections.borrow(clock) as connection:
                return self._search(connection, search, started)
        plan = self._soql(text, self._day())
        with self._connections.borrow(clock) as connection:
            return self._select(connection, plan, started)

    def close(self) -> None:
        """Close the connections and remove the copy."""
        self._connections.close()
        self._remove()

    def _day(self) -> date:
        return self.today or datetime.now(UTC).date()

    def _select(self, connection: Connection, plan: QueryPlan, started: float) -> QueryResult:
        if plan.counting:
            # COUNT() is answered by SQLite itself, without any row.
            count = int(connection.fetch(plan.sql, plan.parameters, 1)[0][0])
            return QueryResult("soql", (), count, 1, time.perf_counter() - started)
        records, read = self._records(connection, plan, ())
        found = tuple(record for _, record in records)
        return QueryResult("soql", found, len(found), read, time.perf_counter() - started)

    def _search(self, connection: Connection, search: SearchPlan, started: float) -> QueryResult:
        found: list[Any] = []
        for plan in search.plans:
            # Objects are searched in their order until there is enough.
            if len(found) >= search.limit:
                break
            records, _ = self._records(connection, plan, ())
            found.extend(record for _, record in records)
        shown = tuple(found[: search.limit])
        return QueryResult("sosl", shown, len(shown), len(shown), time.perf_counter() - started)

    def _records(
        self, connection: Connection, plan: QueryPlan, first: tuple[Any, ...], read: int = 0
    ) -> tuple[list[tuple[Any, Any]], int]:
        """Return the plan's records, each with the last column of its row, and the rows read so far."""
        # What was read so far counts: children share the limit with their parents.
        rows = connection.fetch(plan.sql, first + plan.parameters, self.row_limit - read)
        read += len(rows)
        self._check_size(read)
        children: list[dict[str, Any]] = []
        for child in plan.children:
            # All parents at once: a query for each would take as many statements.
            ids = json.dumps([row[plan.record_id or 0] for row in rows])
            records, read = self._records(connection, child, (ids,), read)
            by_parent: dict[str, list[Any]] = {}
            for parent, record in records:
                by_parent.setdefault(parent, []).append(record)
            children.append({parent: envelope(each) for parent, each in by_parent.items()})
        return [(row[-1], plan.build(row, children)) for row in rows], read

    def _check_size(self, rows: int) -> None:
        if rows > self.row_limit:
            text = f"The query reads more than {self.row_limit} rows; narrow it down with WHERE or LIMIT."
            raise OrgError("OPERATION_TOO_LARGE", text)


def _insert_rows(connection: sqlite3.Connection, sobject: SObject, records: list[Mapping[str, Any]]) -> None:
    """Make an object's table, with the columns that its records have and no others."""
    names = {field.stored_as: None for field in sobject.all_fields}
    # An empty column costs as much as a full one; a table must have one.
    used = [name for name in names if any(name in record for record in records)] or ["Id"]
    columns = ", ".join(map(quote, used))
    connection.execute(f"CREATE TABLE {quote(sobject.name)} ({columns})")
    connection.executemany(
        f"INSERT INTO {quote(sobject.name)} ({columns}) VALUES ({', '.join('?' * len(used))})",
        ([record.get(name) for name in used] for record in records),
    )
