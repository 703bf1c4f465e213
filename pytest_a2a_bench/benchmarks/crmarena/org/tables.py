"""A private copy of an org's tables, with typed values, every field of the schema, and indexes.

The official dumps hold numbers as text and lack the fields that a real org has besides; queries over the copy need not
know. One copy serves all threads, which open it read-only.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from pytest_a2a_bench.benchmarks.crmarena.org.schema import (
    ID_TYPES,
    TEXT_TYPES,
    Field,
    FieldType,
    Formula,
    OrgSchema,
    SObject,
)
from pytest_a2a_bench.benchmarks.crmarena.org.soql.conditions import stored_moment
from pytest_a2a_bench.benchmarks.crmarena.org.soql.scope import quote
from pytest_a2a_bench.errors import ConfigurationError

# GLOB, as SQLite has no regular expressions.
_DAY = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]"
_MOMENT = f"{_DAY}T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9]+0000"
_TRUE = "('1', '1.0', 'true', 't', 'yes')"


def copy_tables(source: Path, target: Path, schema: OrgSchema) -> None:
    """Write the copy.

    :param source: an SQLite file with one table per object, whose columns are field names in any case. Tables and
        columns that are missing are empty; what the schema does not name is left out.
    :param target: the file to write; must not exist.
    :raises ConfigurationError: if the source is not an SQLite file, or has none of the objects.
    """
    connection = sqlite3.connect(target.as_uri(), uri=True, isolation_level=None)
    try:
        # It is not read before it is whole; if this fails it is removed.
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.create_function("day_text", 1, _day_text, deterministic=True)
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
    for field in _indexed(fields, columns):
        name = quote(f"{sobject.name}.{field.name}")
        connection.execute(f"CREATE INDEX main.{name} ON {quote(sobject.name)} ({quote(field.name)})")


def _indexed(fields: Iterable[Field], columns: dict[str, str]) -> list[Field]:
    # Ids and references are what queries join and look up by.
    return [field for field in fields if field.type in ID_TYPES and field.stored_as.lower() in columns]


def _declaration(field_type: FieldType) -> str:
    if field_type in TEXT_TYPES:
        # Salesforce compares, sorts and groups texts without regard to case.
        return "TEXT COLLATE NOCASE"
    if field_type in ("integer", "boolean"):
        return "INTEGER"
    return "REAL" if field_type in ("number", "currency", "percent") else "TEXT"


def _value(field: Field, sobject: SObject, columns: dict[str, str]) -> str:
    column = columns.get(field.stored_as.lower())
    if column is not None and field.formula is not None:
        # Rows that were added to a copy have no value of what is computed.
        made = _formula(field.formula, sobject, columns)
        return f"CASE WHEN {quote(column)} IS NULL THEN {made} ELSE {_typed(quote(column), field.type)} END"
    if column is not None:
        return _typed(quote(column), field.type)
    return "NULL" if field.formula is None else _formula(field.formula, sobject, columns)


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
        return f"CASE WHEN {column} GLOB '{_DAY}*' THEN substr({column}, 1, 10) ELSE day_text({column}) END"
    if field_type == "datetime":
        return f"CASE WHEN {column} GLOB '{_MOMENT}' THEN {column} ELSE moment_text({column}) END"
    return text


def _formula(formula: Formula, sobject: SObject, columns: dict[str, str]) -> str:
    if formula.kind == "constant":
        value = formula.operands[0]
        return str(int(value)) if isinstance(value, bool) else _literal(str(value))
    if formula.kind == "words":
        parts = [f"COALESCE({_operand(name, sobject, columns)}, '')" for name in formula.operands]
        return f"NULLIF(TRIM({' || char(32) || '.join(parts)}), '')"
    values = ", ".join(_literal(value) for value in formula.operands[1:])
    # IS TRUE makes a null false, as a checkbox is.
    return f"({_operand(formula.operands[0], sobject, columns)} COLLATE NOCASE IN ({values})) IS TRUE"


def _operand(name: str, sobject: SObject, columns: dict[str, str]) -> str:
    field = sobject.field(name)
    column = columns.get((field.stored_as if field else name).lower())
    return quote(column) if column else "NULL"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _read_moment(value: object) -> datetime | None:
    """Read what the usual exports write: ISO 8601 with or without zone, a blank for the T, or a day alone."""
    text = re.sub(r"([+-]\d\d)(\d\d)$", r"\1:\2", str(value).strip())
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _moment_text(value: object) -> str | None:
    moment = None if value is None else _read_moment(value)
    return stored_moment(moment) if moment else None


def _day_text(value: object) -> str | None:
    moment = None if value is None else _read_moment(value)
    return moment.date().isoformat() if moment else None
