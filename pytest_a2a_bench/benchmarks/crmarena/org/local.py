"""An org on this machine: SOQL and SOSL over an SQLite file in the shape of the official dumps.

The file is copied, with typed values, every field of the schema, and indexes: dumps hold numbers as text and lack the
fields that a real org has besides. Connections are read-only and have limits, so that no query does harm even if the
parser let it through.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import sqlite3
import tempfile
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime
from functools import lru_cache
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any

from pytest_a2a_bench.benchmarks.crmarena.org import (
    ID_TYPES,
    TEXT_TYPES,
    Field,
    FieldType,
    OrgError,
    OrgSchema,
    QueryResult,
    SObject,
)
from pytest_a2a_bench.benchmarks.crmarena.org.soql import QueryPlan, compile_soql
from pytest_a2a_bench.benchmarks.crmarena.org.soql.conditions import stored_moment
from pytest_a2a_bench.benchmarks.crmarena.org.soql.parser import whole_characters
from pytest_a2a_bench.benchmarks.crmarena.org.soql.scope import quote
from pytest_a2a_bench.benchmarks.crmarena.org.sosl import compile_sosl, matches_search
from pytest_a2a_bench.errors import ConfigurationError, HarnessError

# GLOB, as SQLite has no regular expressions.
_DAY = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]"
_MOMENT = f"{_DAY}T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9]+0000"
_TRUE = "('1', '1.0', 'true', 't', 'yes')"


def copy_tables(source: Path, target: Path, schema: OrgSchema) -> None:
    """Write the copy.

    :param source: an SQLite file with one table per object, whose columns are field names in any case. Tables and
        columns that are missing are empty; columns that the schema does not name are left out.
    :param target: the file to write; must not exist.
    :raises ConfigurationError: if the source is not an SQLite file, or has none of the objects.
    """
    connection = sqlite3.connect(target.as_uri(), uri=True, isolation_level=None)
    try:
        # It is not read before it is whole; if this fails it is removed.
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.create_function("moment_text", 1, _moment_text, deterministic=True)
        columns = _attach(connection, source)
        if not any(sobject.name.lower() in columns for sobject in schema.objects):
            wanted = ", ".join(sobject.name for sobject in schema.objects[:3])
            raise ConfigurationError(f"org database {source}: has no table of the schema's objects ({wanted} ...)")
        connection.execute("BEGIN")
        for sobject in schema.objects:
            # Objects without a table are empty and no error: the dumps leave some out.
            _copy_object(connection, sobject, columns.get(sobject.name.lower(), {}))
        connection.execute("COMMIT")
        connection.execute("DETACH source")
        # Without statistics SQLite may join the large table first.
        connection.execute("ANALYZE")
    finally:
        connection.close()


def _attach(connection: sqlite3.Connection, source: Path) -> dict[str, dict[str, str]]:
    """Attach the source and return its columns: table and column in lower case to the column as it is."""
    try:
        connection.execute("ATTACH ? AS source", (f"{source.resolve().as_uri()}?mode=ro",))
        names = [row[0] for row in connection.execute("SELECT name FROM source.sqlite_master WHERE type = 'table'")]
    except sqlite3.Error as error:
        raise ConfigurationError(f"org database {source}: cannot be read as an SQLite file ({error})") from error
    return {
        name.lower(): {row[1].lower(): row[1] for row in connection.execute(f"PRAGMA source.table_info({quote(name)})")}
        for name in names
    }


def _copy_object(connection: sqlite3.Connection, sobject: SObject, columns: dict[str, str]) -> None:
    fields = list({field.name.lower(): field for field in reversed(sobject.all_fields)}.values())
    table = f"main.{quote(sobject.name)}"
    declared = ", ".join(f"{quote(field.name)} {_declaration(field.type)}" for field in fields)
    connection.execute(f"CREATE TABLE {table} ({declared})")
    if not columns:
        return
    values = ", ".join(_value(field, sobject, columns) for field in fields)
    # In the order of the source, which is the order of answers without ORDER BY.
    connection.execute(f"INSERT INTO {table} SELECT {values} FROM source.{quote(sobject.name)} ORDER BY rowid")
    # Ids and references are what queries join and look up by.
    for field in (each for each in fields if each.type in ID_TYPES and each.stored_as.lower() in columns):
        name = quote(f"{sobject.name}.{field.name}")
        connection.execute(f"CREATE INDEX main.{name} ON {quote(sobject.name)} ({quote(field.name)})")


def _declaration(field_type: FieldType) -> str:
    if field_type in TEXT_TYPES:
        # Salesforce compares, sorts and groups texts without regard to case.
        return "TEXT COLLATE NOCASE"
    if field_type in ("integer", "boolean"):
        return "INTEGER"
    return "REAL" if field_type in ("number", "currency", "percent") else "TEXT"


def _value(field: Field, sobject: SObject, columns: dict[str, str]) -> str:
    def column_of(match: re.Match[str]) -> str:
        other = sobject.field(match[1])
        return quote(columns[other.stored_as.lower()]) if other and other.stored_as.lower() in columns else "NULL"

    computed = re.sub(r"\{(\w+)\}", column_of, field.formula)
    column = columns.get(field.stored_as.lower())
    if column is None:
        return computed
    typed = _typed(quote(column), field.type)
    # Rows that were added to a copy have no value of what is computed.
    return typed if computed == "NULL" else f"CASE WHEN {quote(column)} IS NULL THEN {computed} ELSE {typed} END"


def _typed(column: str, field_type: FieldType) -> str:
    # Salesforce has no empty texts: they are null.
    text = f"NULLIF(CAST({column} AS TEXT), '')"
    if field_type in ("number", "currency", "percent", "integer"):
        number = f"CAST({column} AS REAL)"
        number = f"CAST({number} AS INTEGER)" if field_type == "integer" else number
        # A number may have a sign or a decimal point; what has no digit is none.
        return f"CASE WHEN CAST({column} AS TEXT) GLOB '*[0-9]*' THEN {number} END"
    if field_type == "boolean":
        # A checkbox is never null on Salesforce: what is not true is false.
        return f"(LOWER(CAST({column} AS TEXT)) IN {_TRUE}) IS TRUE"
    if field_type == "date":
        # The usual form is taken as it is; only others take the way through Python.
        return f"substr(CASE WHEN {column} GLOB '{_DAY}*' THEN {column} ELSE moment_text({column}) END, 1, 10)"
    if field_type == "datetime":
        return f"CASE WHEN {column} GLOB '{_MOMENT}' THEN {column} ELSE moment_text({column}) END"
    return text


def _moment_text(value: object) -> str | None:
    """Read a time of the usual exports: ISO 8601 with or without zone, a blank for the T, or a day alone."""
    text = re.sub(r"([+-]\d\d)(\d\d)$", r"\1:\2", str(value).strip())
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return stored_moment(moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC))


#: Rows that one answer may be made of, children included: what one transaction may read on Salesforce.
ROW_LIMIT = 50_000
# Queries of the trials of one task are often the same.
_REMEMBERED = 512


#: SQLite's own instructions between two looks at the clock: about a fifth of a millisecond.
_INSTRUCTIONS = 5_000
#: No value may become longer than this: ``zeroblob`` and ``printf`` make long ones from short queries.
_LONGEST_VALUE = 4_000_000
# What a SELECT needs; everything else is denied, whatever future versions of SQLite add.
_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE})
# Functions of SQLite's own shell and extensions that touch files.
_FORBIDDEN_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer", "writefile", "readfile", "edit"})
#: What SQLite says of queries that are right, but too much for it.
# By words: Python gives no codes for most of them.
_LIMITS = ("too complex", "too big", "too many", "too large", "at most", "overflow")
TOO_LONG = "Your query request was running for too long."


class Connection:
    """One connection, used by one thread at a time.

    :param time_limit: seconds of CPU time that a query may take.
    """

    def __init__(self, path: Path, time_limit: float) -> None:
        # immutable: this copy is never written to, so that SQLite needs no locks.
        uri = f"{path.as_uri()}?mode=ro&immutable=1"
        # check_same_thread=False because threads take turns, which LocalOrg sees to.
        self._connection = sqlite3.connect(uri, uri=True, check_same_thread=False, isolation_level=None)
        self._time_limit = time_limit
        self._deadline = 0.0
        # A second bolt beside mode=ro and the authorizer: none of the three alone is to be trusted.
        self._connection.execute("PRAGMA query_only = 1")
        self._connection.execute("PRAGMA temp_store = MEMORY")
        # Up to 256 MB of the file are mapped instead of read.
        self._connection.execute("PRAGMA mmap_size = 268435456")
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
        # No query may open another file.
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        # SQLite's own LOWER knows ASCII only.
        self._connection.create_function("fold", 1, _fold, deterministic=True)
        self._connection.create_function("geo_distance", 5, geo_distance, deterministic=True)
        self._connection.create_function("matches_search", -1, self._matches, deterministic=True)
        # SQLite makes this table on its first use, with statements that the authorizer would deny.
        self._connection.execute("SELECT value FROM json_each('[]')").fetchall()
        self._connection.set_authorizer(_authorize)
        self._connection.set_progress_handler(self._is_late, _INSTRUCTIONS)

    def start_query(self, began: float | None = None) -> None:
        """Begin to count the time of a query, which may be several statements.

        CPU time of this thread: a machine that is busy with something else is not the query's fault.

        :param began: its ``time.thread_time()`` before it was compiled, which counts.
        """
        self._deadline = (time.thread_time() if began is None else began) + self._time_limit

    # Some queries are several statements: the clock is the query's and not each statement's.
    def fetch(self, sql: str, parameters: tuple[Any, ...], most: int) -> list[tuple[Any, ...]]:
        """Return rows, at most one more than ``most``.

        :raises OrgError: QUERY_TIMEOUT, and QUERY_TOO_COMPLICATED beyond one of SQLite's own limits.
        :raises HarnessError: if SQLite refuses the SQL for another reason: then the compiler is wrong.
        """
        if self._is_late():
            # SQLite's own handler is asked only once a statement runs, and not while it is prepared.
            raise OrgError("QUERY_TIMEOUT", TOO_LONG)
        try:
            cursor = self._connection.execute(sql, parameters)
            # One more than may be there shows that there are too many, without reading them all.
            return cursor.fetchmany(most + 1)
        except sqlite3.Error as error:
            if any(words in str(error) for words in _LIMITS):
                raise OrgError("QUERY_TOO_COMPLICATED", f"The query is too complicated ({error}).") from error
            if "interrupted" in str(error) or self._is_late():
                raise OrgError("QUERY_TIMEOUT", TOO_LONG) from error
            # The SQL is in the message, because the agent's query was right and our compiler was not.
            raise HarnessError(f"compiled query: SQLite refuses it ({error}): {sql[:2000]}") from error

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _is_late(self) -> bool:
        return time.thread_time() > self._deadline

    def _matches(self, *arguments: Any) -> bool:
        # A search function runs in Python, where SQLite's progress handler does not look.
        if self._is_late():
            raise TimeoutError(TOO_LONG)
        return matches_search(*arguments)


def _fold(value: Any) -> Any:
    return value.casefold() if isinstance(value, str) else value


_EARTH_KM = 6371.0088
_KM_IN_MILE = 1.609344


def geo_distance(*places_and_unit: Any) -> float | None:
    """Return the great-circle distance of two places in degrees, in ``mi`` or ``km``; None where one is unknown."""
    *places, unit = places_and_unit
    if None in places:
        return None
    one, longitude, other, other_longitude = map(math.radians, places)
    across = other_longitude - longitude
    chord = math.sin((other - one) / 2) ** 2 + math.cos(one) * math.cos(other) * math.sin(across / 2) ** 2
    km = 2 * _EARTH_KM * math.asin(min(1.0, math.sqrt(chord)))
    return km if unit == "km" else km / _KM_IN_MILE


def _authorize(action: int, first: str | None, second: str | None, database: str | None, trigger: str | None) -> int:
    # Nearly all that is asked: once for each column of each statement.
    if action == sqlite3.SQLITE_READ:
        return sqlite3.SQLITE_OK
    if action not in _ALLOWED or (second or "").lower() in _FORBIDDEN_FUNCTIONS:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


class LocalOrg:
    """An org in an SQLite file. May be asked from several threads at once; reads only.

    The file has one table per object and columns named like the fields. It is copied once, typed and indexed, and never
    touched again. Beyond its limits a query is refused with QUERY_TIMEOUT or OPERATION_TOO_LARGE.

    :param today: the day that TODAY means; the real one if None.
    :param time_limit: seconds of CPU time that one query may take.
    :param row_limit: rows that one answer may be made of.
    :raises ConfigurationError: if there is no such file, or it is not such a database.
    """

    day = None  # nothing limits how often it is asked

    def __init__(
        self,
        path: Path,
        schema: OrgSchema,
        *,
        name: str,
        today: date | None = None,
        time_limit: float = 5.0,
        row_limit: int = ROW_LIMIT,
    ) -> None:
        if not path.is_file():
            raise ConfigurationError(f"org database {path}: no such file")
        self.name = name
        self.today = today
        self.time_limit = time_limit
        self.row_limit = row_limit
        folder = Path(tempfile.mkdtemp(prefix="a2a-org-"))
        # Also without a call of close: copies of an org are large.
        self._remove = weakref.finalize(self, shutil.rmtree, folder, True)
        # A copy of our own: the user's file must stay as it is, and gets typed values and indexes.
        self.path = folder / "org.db"
        try:
            copy_tables(path, self.path, schema)
        except BaseException:
            self._remove()
            raise
        self._schema = schema
        # As many connections as there are queries at the same time; closed for good once this is None.
        self._idle: list[Connection] | None = []
        self._lock = Lock()
        # By day too: TODAY in a query means another day tomorrow.
        self._soql = lru_cache(_REMEMBERED)(lambda text, day: compile_soql(text, schema, day))
        self._sosl = lru_cache(_REMEMBERED)(lambda text, day: compile_sosl(text, schema, day))

    @classmethod
    def from_rows(cls, rows: Mapping[str, Iterable[Mapping[str, Any]]], schema: OrgSchema, **options: Any) -> LocalOrg:
        """Make an org of records in memory.

        :param rows: records by object name; keys are field names.
        :param options: those of the class.
        """
        with tempfile.TemporaryDirectory(prefix="a2a-org-") as folder:
            path = Path(folder) / "source.db"
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("PRAGMA synchronous = OFF")
                for sobject in schema.objects:
                    _insert_rows(connection, sobject, list(rows.get(sobject.name, ())))
                connection.commit()
            return cls(path, schema, **options)

    @property
    def schema(self) -> OrgSchema:
        """The objects and fields."""
        return self._schema

    def run(self, text: str) -> QueryResult:
        """Answer one query: SOSL if it starts with FIND, otherwise SOQL.

        :raises OrgError: as Salesforce would refuse it, or beyond a limit.
        """
        started, clock = time.perf_counter(), time.thread_time()
        # Half surrogates, which agents send, cannot be stored or compared.
        text = whole_characters(text)
        day = self.today or datetime.now(UTC).date()
        if text.lstrip()[:4].upper() == "FIND":
            plans, limit = self._sosl(text, day)
            with self._borrow(clock) as connection:
                return self._search(connection, plans, limit, started)
        plan = self._soql(text, day)
        with self._borrow(clock) as connection:
            return self._select(connection, plan, started)

    def close(self) -> None:
        """Close the connections and remove the copy."""
        with self._lock:
            idle, self._idle = self._idle, None
        # Those in use are closed when they come back.
        for connection in idle or ():
            connection.close()
        self._remove()

    @contextmanager
    def _borrow(self, began: float) -> Iterator[Connection]:
        """Lend a connection whose clock has started.

        :raises ValueError: once the org is closed.
        """
        with self._lock:
            if self._idle is None:
                raise ValueError("the org is closed")
            connection = self._idle.pop() if self._idle else None
        # Outside of the lock: opening a file takes longer than taking one from a list.
        connection = connection or Connection(self.path, self.time_limit)
        connection.start_query(began)
        try:
            yield connection
        finally:
            with self._lock:
                if self._idle is None:
                    connection.close()
                else:
                    self._idle.append(connection)

    def _select(self, connection: Connection, plan: QueryPlan, started: float) -> QueryResult:
        if plan.counting:
            # COUNT() is answered by SQLite itself, without any row.
            count = int(connection.fetch(plan.sql, plan.parameters, 1)[0][0])
            return QueryResult("soql", (), count, 1, time.perf_counter() - started)
        records, read = self._records(connection, plan, ())
        found = tuple(record for _, record in records)
        return QueryResult("soql", found, len(found), read, time.perf_counter() - started)

    def _search(self, connection: Connection, plans: Iterable[QueryPlan], limit: int, started: float) -> QueryResult:
        # Objects are searched in their order until there is enough.
        found = (record for plan in plans for _, record in self._records(connection, plan, ())[0])
        shown = tuple(islice(found, limit))
        return QueryResult("sosl", shown, len(shown), len(shown), time.perf_counter() - started)

    def _records(
        self, connection: Connection, plan: QueryPlan, first: tuple[Any, ...], read: int = 0
    ) -> tuple[list[tuple[Any, Any]], int]:
        """Return the plan's records, each with the last column of its row, and the rows read so far."""
        # What was read so far counts: children share the limit with their parents.
        rows = connection.fetch(plan.sql, first + plan.parameters, self.row_limit - read)
        read += len(rows)
        if read > self.row_limit:
            text = f"The query reads more than {self.row_limit} rows; narrow it down with WHERE or LIMIT."
            raise OrgError("OPERATION_TOO_LARGE", text)
        children: list[dict[str, Any]] = []
        for child in plan.children:
            # All parents at once: a query for each would take as many statements.
            ids = json.dumps([row[plan.record_id or 0] for row in rows])
            records, read = self._records(connection, child, (ids,), read)
            by_parent: dict[str, list[Any]] = {}
            for parent, record in records:
                by_parent.setdefault(parent, []).append(record)
            # Salesforce has null, not an empty envelope, where a record has no children.
            children.append(
                {parent: {"totalSize": len(each), "done": True, "records": each} for parent, each in by_parent.items()}
            )
        return [(row[-1], plan.build(row, children)) for row in rows], read


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
