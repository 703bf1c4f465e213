"""Read-only connections with limits: what a hostile query cannot do even if the parser let it through."""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from pytest_a2a_bench.benchmarks.crmarena.org.base import OrgError
from pytest_a2a_bench.benchmarks.crmarena.org.sosl import matches_search
from pytest_a2a_bench.errors import HarnessError

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
        # immutable: nobody writes to this copy, so that SQLite needs no locks.
        uri = f"{path.as_uri()}?mode=ro&immutable=1"
        # check_same_thread=False because threads take turns, which Connections sees to.
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
            if _is_limit(error):
                raise OrgError("QUERY_TOO_COMPLICATED", f"The query is too complicated ({error}).") from error
            refusal = self._explain(error)
            if refusal.code == "QUERY_TIMEOUT":
                raise refusal from error
            # The SQL is in the message, because the agent's query was right and our compiler was not.
            raise HarnessError(f"compiled query: SQLite refuses it ({error}): {sql[:2000]}") from error

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _explain(self, error: Exception) -> OrgError:
        if "interrupted" in str(error) or self._is_late():
            return OrgError("QUERY_TIMEOUT", TOO_LONG)
        return OrgError("MALFORMED_QUERY", str(error))

    def _is_late(self) -> bool:
        return time.thread_time() > self._deadline

    def _matches(self, *arguments: Any) -> bool:
        # A search function runs in Python, where SQLite's progress handler does not look.
        if self._is_late():
            raise TimeoutError(TOO_LONG)
        return matches_search(*arguments)


def _is_limit(error: sqlite3.Error) -> bool:
    return any(words in str(error) for words in _LIMITS)


def _fold(value: Any) -> Any:
    return value.casefold() if isinstance(value, str) else value


_EARTH_KM = 6371.0088
_KM_IN_MILE = 1.609344


def geo_distance(
    latitude: float | None,
    longitude: float | None,
    other_latitude: float | None,
    other_longitude: float | None,
    unit: str,
) -> float | None:
    """Return the great-circle distance of two places in degrees, in ``mi`` or ``km``; None where one is unknown."""
    if latitude is None or longitude is None or other_latitude is None or other_longitude is None:
        return None
    one, other = math.radians(latitude), math.radians(other_latitude)
    across = math.radians(other_longitude - longitude)
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


class Connections:
    """Connections to one file: as many as there are queries at the same time, and no more."""

    def __init__(self, path: Path, time_limit: float) -> None:
        self._path = path
        self._time_limit = time_limit
        self._idle: list[Connection] = []
        self._lock = Lock()
        self._closed = False

    @contextmanager
    def borrow(self, began: float | None = None) -> Iterator[Connection]:
        """Lend a connection whose clock has started.

        :param began: as for :meth:`Connection.start_query`.
        :raises ValueError: once they are closed.
        """
        with self._lock:
            if self._closed:
                raise ValueError("the org is closed")
            connection = self._idle.pop() if self._idle else None
        # Outside of the lock: opening a file takes longer than taking one from a list.
        connection = connection or Connection(self._path, self._time_limit)
        connection.start_query(began)
        try:
            yield connection
        finally:
            self._give_back(connection)

    def _give_back(self, connection: Connection) -> None:
        with self._lock:
            if not self._closed:
                # An org that was closed meanwhile gets nothing back.
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close all connections; those in use when they come back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
