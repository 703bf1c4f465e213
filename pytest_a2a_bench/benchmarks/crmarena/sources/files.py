"""Find a domain's files in a directory, and read tables out of JSON, JSON lines and Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pytest_a2a_bench.benchmarks.suite import INTERACTIVE
from pytest_a2a_bench.errors import ConfigurationError, MissingExtraError

_FOLDERS = ("", "local_data", "data", "tasks", "CRMArenaPro", "CRMArena")
_SUFFIXES = (".json", ".jsonl", ".parquet")
_ORIGINAL_TASKS = ("original_tasks", "crmarena_tasks", "crmarena_w_metadata", "original", "crmarena", "CRMArena/test")
_ORIGINAL_SCHEMA = ("original_schema", "crmarena_schema", "schema_with_dependencies", "schema/test", "schema")
_ROWS = {
    "original": ("crmarena_data.db", "original_data.db", "original.db"),
    "b2b": ("crmarenapro_b2b_data.db", "b2b_data.db", "b2b.db"),
    "b2c": ("crmarenapro_b2c_data.db", "b2c_data.db", "b2c.db"),
}
_SQLITE = b"SQLite format 3\0"
_POINTER = b"version https://git-lfs"


class TableRow(NamedTuple):
    """One row of a table: where it stands (for messages), and what it says."""

    place: str
    value: Any


def org_of(domain: str) -> str:
    """Return the name of a domain's org: interactive domains share one with the plain ones."""
    return domain.removesuffix(INTERACTIVE)


def find_tasks(root: Path | None, domain: str) -> tuple[Path, ...]:
    """Return the files (several for a sharded Parquet table) that hold a domain's tasks; nothing if there are none."""
    return _find_table(root, task_stems(domain))


def find_schema(root: Path | None, domain: str) -> tuple[Path, ...]:
    """Return the files that hold the schema of a domain's org."""
    return _find_table(root, schema_stems(domain))


def task_stems(domain: str) -> tuple[str, ...]:
    """Return the names, without suffix, under which tasks are looked for."""
    if domain == "original":
        return _ORIGINAL_TASKS
    return (f"{domain}_tasks", f"crmarenapro_{domain}_tasks", f"crmarenapro_{domain}", domain)


def schema_stems(domain: str) -> tuple[str, ...]:
    """Return the names, without suffix, under which a schema is looked for."""
    org = org_of(domain)
    if org == "original":
        return _ORIGINAL_SCHEMA
    return (f"{org}_schema", f"crmarenapro_{org}_schema", f"{org}_schema/{org}_schema")


def row_names(domain: str) -> tuple[str, ...]:
    """Return the names under which the SQLite file is looked for."""
    return _ROWS[org_of(domain)]


def find_rows(root: Path | None, domain: str) -> Path | None:
    """Return the SQLite file of a domain's org, or None: by its known names, else the only ``*.db`` that names it."""
    if root is None or not root.is_dir():
        return None
    folders = [root / name for name in _FOLDERS]
    named = (folder / name for name in row_names(domain) for folder in folders if (folder / name).is_file())
    found = next(named, None)
    if found is not None:
        return found
    others = sorted({p for folder in folders if folder.is_dir() for p in folder.glob(f"*{org_of(domain)}*.db")})
    return others[0] if len(others) == 1 else None


def _find_table(root: Path | None, stems: tuple[str, ...]) -> tuple[Path, ...]:
    if root is None or not root.is_dir():
        return ()
    for stem in stems:
        for folder in (root / name for name in _FOLDERS):
            for suffix in _SUFFIXES:
                path = folder / f"{stem}{suffix}"
                if path.is_file():
                    return (path,)
            shards = sorted(folder.glob(f"{stem}-*-of-*.parquet"))
            if shards:
                return tuple(shards)
    return ()


def list_files(root: Path, limit: int = 12) -> str:
    """Name what a directory holds, for a message about what it lacks."""
    names = sorted(p.name + ("/" if p.is_dir() else "") for p in root.iterdir() if not p.name.startswith("."))
    shown = ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")
    return shown or "nothing"


def check_sqlite(path: Path) -> str:
    """Say what is wrong with a file that should be an SQLite database; an empty string where nothing is."""
    with path.open("rb") as file:
        head = file.read(len(_POINTER))
    if head.startswith(_SQLITE):
        return ""
    if head == _POINTER:
        return f"{path} is a Git LFS pointer, not the database itself; run: git lfs pull"
    return f"{path} is no SQLite database; download it again"


def read_table(paths: tuple[Path, ...]) -> list[TableRow]:
    """Read the rows of a table.

    :raises ConfigurationError: if a file cannot be read, saying where.
    """
    return [row for path in paths for row in _read_file(path)]


def _read_file(path: Path) -> Iterator[TableRow]:
    if path.suffix == ".parquet":
        yield from _read_parquet(path)
        return
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigurationError(f"{path} cannot be read as UTF-8 text: {exc}; download it again") from exc
    if path.suffix == ".jsonl" or _has_lines(text):
        yield from _read_lines(path, text)
        return
    value = _parse(path, text)
    if not isinstance(value, list):
        found = f"a JSON {_kind(value)}"
        raise ConfigurationError(f"{path} holds {found}; it must be a JSON list with one object per row")
    for index, item in enumerate(value):
        yield TableRow(f"{path.name}[{index}]", item)


def _has_lines(text: str) -> bool:
    """Tell whether a ``.json`` file has an object on each line, as data sets on the hub often do."""
    first, _, rest = text.lstrip().partition("\n")
    if not first.startswith("{") or not rest.lstrip().startswith("{"):
        return False
    try:
        return isinstance(json.loads(first), dict)
    except ValueError:
        return False


def _read_lines(path: Path, text: str) -> Iterator[TableRow]:
    # Not splitlines(): JSON strings may hold U+2028 and its like as they are.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield TableRow(f"{path.name} line {number}", _parse(path, line, number))


def _parse(path: Path, text: str, line: int | None = None) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as exc:
        where = f"line {line or exc.lineno}, column {exc.colno}"
        raise ConfigurationError(f"{path} is not JSON ({where}: {exc.msg}); download it again") from exc
    except RecursionError as exc:
        raise ConfigurationError(f"{path} is nested too deeply to be a table") from exc


def _read_parquet(path: Path) -> Iterator[TableRow]:
    try:
        import pyarrow.parquet
    except ImportError as exc:
        raise MissingExtraError("pyarrow", "hub", f"{path.name} is a Parquet file") from exc
    try:
        rows = pyarrow.parquet.read_table(path).to_pylist()
    except Exception as exc:
        reason = str(exc).splitlines()[0] if str(exc) else ""
        raise ConfigurationError(f"{path} cannot be read as Parquet: {reason}; download it again") from exc
    for index, item in enumerate(rows):
        yield TableRow(f"{path.name}[{index}]", item)


def _kind(value: Any) -> str:
    return {dict: "object", str: "string", type(None): "null", bool: "boolean"}.get(type(value), "number")
