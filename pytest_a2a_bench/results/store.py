"""Stored files: how each kind is read and checked, and trial files, one per trial, written whole or not at all.

Layout of a results directory::

    DIR/.gitignore           keeps the results out of version control
    DIR/run.lock             the process that writes into it (see lock.py)
    DIR/run.json             the plan of the last run (see manifest.py)
    DIR/live/                conversations in flight, with --a2a-live (see live.py)
    DIR/trials/NAME.json     one per trial key; NAME is readable, unique and safe (TrialKey.file_stem)

A file is replaced when the same trial runs again. Files are read within bounds, as dataclasses that pydantic validates;
a problem is a line that names the file, the place in it, the value there, and the remedy.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import platform
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from pytest_a2a_bench.errors import A2ABenchError
from pytest_a2a_bench.model import SCHEMA_VERSION, TrialKey, TrialResult
from pytest_a2a_bench.redact import KNOWN, dump_json
from pytest_a2a_bench.text import counted, one_line, reason_of, refusing

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError


Content = TypeVar("Content")

LARGEST = 256 * 2**20
"""Bytes that are read of a file; the largest trial of a real run has 2 MB."""

_FIRST = 2**16
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class StoredForm(Generic[Content]):
    """One kind of stored file.

    :param content: the dataclass (or other type) that it is read as; members that it does not know are passed over.
    :param complaint: the message about a file of another kind, after its path.
    :param remedy: the advice for it.
    :param error: the exception that says it.
    :param version: its ``schema_version``; 0 where it says none.
    :param schema: its ``schema``; empty where it says none.
    :param check: returns the problem of content that has the right types, as place and text; None for no problem.
    """

    content: type[Content]
    complaint: str
    remedy: str
    error: type[A2ABenchError]
    version: int = 1
    schema: str = ""
    check: Callable[[Content], str | None] = lambda _: None

    def read(self, path: Path) -> Content:
        """Read a file.

        :raises FileNotFoundError: if it is not there.
        :raises A2ABenchError: of the class :attr:`error`, if it is something else or cannot be read.
        """
        try:
            with path.open("rb") as stream:
                data = stream.read(_FIRST)
                if len(data) == _FIRST:  # to ask for all at once would reserve it all, for every small file
                    data += stream.read(LARGEST + 1 - _FIRST)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self._refusal(path, f"it cannot be read: {reason_of(error)}") from error
        if len(data) > LARGEST:
            raise self._refusal(path, f"it has more than {LARGEST >> 20} MB")
        return self.parse(data, path)

    def parse(self, data: bytes, path: Path) -> Content:
        """Return the content of a file's bytes; like :meth:`read`."""
        # Here because pydantic takes longer to import than a run without stored files to collect.
        from pydantic import ValidationError

        try:
            if self.version and not self._has_plain_head(data):
                self._check_head(_validated(_Head, data))
            content = _validated(self.content, data)
        except ValidationError as error:
            raise self._refusal(path, explain(error)) from error
        except ValueError as error:
            raise self._refusal(path, str(error)) from error
        problem = self.check(content)
        if problem is not None:
            raise self._refusal(path, problem)
        return content

    def to_json(self, content: Content) -> dict[str, Any]:
        """Return the whole of a file: its schema and version, then the content."""
        head = {"schema": self.schema} if self.schema else {}
        return {**head, "schema_version": self.version, **dataclasses.asdict(cast(Any, content))}

    def _has_plain_head(self, data: bytes) -> bool:
        """Return whether a file begins with the right version, as our own files do, and names no other."""
        plain = not self.schema and re.match(rb'\{\s*"schema_version": (\d{1,9}),', data)
        # In texts the quotes are escaped.
        return bool(plain and int(plain[1]) == self.version and data.count(b'"schema_version"') == 1)

    def _check_head(self, head: _Head) -> None:
        if self.schema and head.schema != self.schema:
            raise ValueError(f"its schema is {described(head.schema)} and not {self.schema!r}")
        # True and 1.0 equal 1 and are no version.
        if head.schema_version != self.version or type(head.schema_version) is not int:
            raise ValueError(
                f"its schema_version is {described(head.schema_version)}; this version reads {self.version}"
            )

    def _refusal(self, path: Path, problem: str) -> A2ABenchError:
        return self.error(f"{path}{self.complaint}: {problem}; {self.remedy}")


@dataclass(frozen=True, slots=True)
class _Head:
    schema: Any = None
    schema_version: Any = None


_ADAPTERS: dict[type[Any], TypeAdapter[Any]] = {}


def adapter_of(content: type[Any]) -> TypeAdapter[Any]:
    """Return the validator of a type; making it takes as long as reading a hundred files, so it is kept."""
    from pydantic import TypeAdapter

    if content not in _ADAPTERS:
        # Annotations are looked up in the module, which tests of pytest plugins may have unloaded.
        import_module(content.__module__)
        _ADAPTERS[content] = TypeAdapter(content)
    return _ADAPTERS[content]


def _validated(content: type[Content], data: bytes) -> Content:
    """Return content whose types are exactly those that are declared.

    :raises pydantic.ValidationError: if they are not, or this is no JSON.
    """
    from pydantic import ValidationError

    found: Content
    try:
        found = adapter_of(content).validate_json(data, strict=True)
    except ValidationError as error:
        if error.errors(include_url=False)[0]["type"] != "json_invalid" or _ESCAPE.search(data) is None:
            raise
        # An agent may say half of a surrogate pair, which Python writes and reads, and pydantic does not.
        found = adapter_of(content).validate_json(_ESCAPE.sub(_mended, data), strict=True)
    return found


_ESCAPE = re.compile(rb"(?i)\\(?:ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|(ud[89a-f][0-9a-f]{2})|.)")
"""An escape in JSON; the group is a half of a pair."""


def _mended(escape: re.Match[bytes]) -> bytes:
    return rb"\ufffd" if escape[1] else escape[0]


# --- words ------------------------------------------------------------------------------------------------------------


def explain(error: ValidationError) -> str:
    """Report in one line which place is wrong first, and how."""
    first, *others = error.errors()
    more = f" (and {len(others)} more)" if others else ""
    message = first["msg"].removeprefix("Value error, ").replace("Input should be", "should be")
    if first["type"] == "json_invalid":
        if "recursion" in message:
            return "it is nested too deeply"
        return f"it is not JSON, or damaged ({message.removeprefix('Invalid JSON: ')})"
    if first["type"] == "string_pattern_mismatch":
        message = "should be a trial's key, such as tau2/airline/12#0"
    place = ".".join(one_line(str(part), _SHOWN) for part in first["loc"]) or "the file"
    if first["type"] == "missing":
        return f"{place} is missing{more}"
    return f"{place} {message[0].lower()}{message[1:]}, found {described(first['input'])}{more}"


def described(value: Any) -> str:
    """Name the JSON type and content of a value in one short line."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    try:
        return one_line(repr(value), _SHOWN)
    except ValueError:  # more digits than Python prints
        return "a number of many digits"


_HOST = re.sub(r"[^A-Za-z0-9]", "_", platform.node())
# Only this machine's: on a shared disk, the process of that number may be another machine's and still write.
_LEFTOVER = re.compile(rf"\.{_HOST}-(\d+)-[^-]*\.tmp")


class StoreError(A2ABenchError):
    """The results directory cannot be written, or a file in it cannot be read."""


_REMEDY = "remove the file, and run the trial again with --a2a-resume"


def _contradiction(result: TrialResult) -> str | None:
    """Return the inconsistency of a result; None if it has none."""
    if result.status == "evaluated" and result.reward_info is None:
        return "reward_info is null, and an evaluated trial has one"
    measured = result.provenance.get("measured", {})
    if not isinstance(measured, Mapping):
        return "provenance.measured should be an object of numbers"
    for name, value in measured.items():
        if not isinstance(value, int | float | None) or (value is not None and not abs(value) < 2**63):
            return f"provenance.measured.{name} should be a finite number"
    return None


TRIAL = StoredForm(
    TrialResult,
    " is not a trial file that this version reads",
    _REMEDY,
    StoreError,
    version=SCHEMA_VERSION,
    check=_contradiction,
)


class Store:
    """The trial files of one results directory. Safe to use from many threads and processes at once."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.trials: Path = directory / "trials"
        self._forgotten: set[Path] = set()

    def prepare(self) -> None:
        """Create the directory; raises StoreError if it cannot be created or written."""
        with refusing(f"results directory {self.directory} cannot be written", raises=StoreError):
            self.trials.mkdir(parents=True, exist_ok=True)
            ignore = self.directory / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n", encoding="utf-8")
            _remove_leftovers(self.directory)
            _remove_leftovers(self.trials)

    def path(self, key: TrialKey) -> Path:
        """Return the file of a trial, whether it exists or not."""
        return self.trials / f"{key.file_stem}.json"

    def write(self, result: TrialResult, *, sync: bool = True) -> TrialResult:
        """Write a trial's file atomically, readable by its owner only, and return the result with its path.

        :param sync: whether to wait until the file is on the disk.
        :raises StoreError: if it cannot be written.
        """
        target = self.path(result.key)
        with refusing(f"trial file {target} cannot be written", raises=StoreError):
            self.trials.mkdir(parents=True, exist_ok=True)
            write_atomically(target, dump_json(result.to_json()), sync=sync)
        return dataclasses.replace(result, path=str(target))

    def forget(self, key: TrialKey) -> None:
        """Remove a trial's file; one that is elsewhere is not looked for any more."""
        path = self.path(key)
        path.unlink(missing_ok=True)
        self._forgotten.add(path)

    def read(self, key: TrialKey) -> TrialResult | None:
        """Return a trial's stored result, or None where there is none.

        :raises StoreError: if the file is there and cannot be read.
        """
        path = self.path(key)
        try:
            found = dataclasses.replace(TRIAL.read(path), path=str(path))
        except FileNotFoundError:
            with refusing(f"{path.name} cannot be fetched", raises=StoreError):
                data = None if path in self._forgotten else fetched(path)
            if data is None:
                return None
            found = dataclasses.replace(TRIAL.parse(data, path), path=str(path))
        if found.key != key:
            raise StoreError(f"{found.path} holds the trial {found.key} instead of {key}; {_REMEDY}")
        return found

    def read_all(self) -> Iterator[TrialResult]:
        """Return every stored result, in the order of file names; raises StoreError if a file cannot be read."""
        for path in sorted(self.trials.glob("*.json")):
            yield load_trial(path)

    def read_readable(self) -> tuple[list[TrialResult], dict[str, str]]:
        """Return every stored result that can be read, and the problem of each other file, by the file's stem."""
        found: list[TrialResult] = []
        wrong: dict[str, str] = {}
        for path in counted(sorted(self.trials.glob("*.json")), "results read"):
            try:
                found.append(load_trial(path))
            except StoreError as error:
                wrong[path.stem] = str(error)
        return found, wrong


def _remove_leftovers(directory: Path) -> None:
    """Remove the temporary files of processes of this machine that were killed."""
    for path in directory.glob(".*.tmp"):
        found = _LEFTOVER.fullmatch(path.name)
        if found and not is_alive(int(found[1])):
            path.unlink(missing_ok=True)


def load_trial(path: Path) -> TrialResult:
    """Read one trial file; raises StoreError if it cannot be read or is not one."""
    with refusing(f"{path} cannot be read", raises=StoreError):
        found = TRIAL.read(path)
    return dataclasses.replace(found, path=str(path))


def save(path: Path, text: str) -> None:
    """Write a file whole or not at all, readable by its owner only; its directory is made.

    :raises StoreError: if it cannot be written.
    """
    with refusing(f"{path} cannot be written", raises=StoreError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text)


def write_atomically(target: Path, text: str, *, sync: bool = True) -> None:
    """Write a file whole or not at all, readable by its owner only, and without the secrets of this process.

    :param sync: whether to wait until the file is on the disk.
    :raises OSError: if it cannot be written.
    """
    text = KNOWN.hide(text)
    target = target.resolve()  # what a link names is to change, and not the link
    if target.exists() and not target.is_file():
        # /dev/stdout is written to; replacing it would take it from everybody else on this machine.
        with target.open("w", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(text)
        return
    # mkstemp makes the file 0600: a transcript may hold what a user said.
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{_HOST}-{os.getpid()}-", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(text)
            stream.flush()
            if sync:
                os.fsync(stream.fileno())
        # First where it belongs: a file that is only here would be taken for one that is safe.
        for directory, place in _PLACES.items():
            if target.is_relative_to(directory):
                place.put(target.relative_to(directory).as_posix(), text)
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


# --- remote storage --------------------------------------------------------------------------------------------------
# At a URL, or with the controller of a worker elsewhere: each file that is written into a bound directory is copied
# there before its trial counts as stored, and all other code reads and writes local files.


class Place(Protocol):
    """Remote storage of a results directory; its methods are called from many threads at once."""

    name: str
    """Its name in messages."""

    def put(self, name: str, text: str) -> None:
        """Keep a file.

        :param name: relative to the directory, such as ``trials/NAME.json``.
        :raises OSError: if it cannot be kept.
        """
        ...

    def get(self, name: str) -> str | None:
        """Return a file that the directory has not, or None where there is none.

        :raises OSError: if it cannot be read.
        """
        ...

    def claim(self, holder: str) -> str | None:
        """Lock the storage for this process.

        :param holder: a description of this process, for others to read.
        :return: the description of another process that has the lock; None where this process has it now.
        :raises OSError: if it cannot be read.
        """
        ...

    def release(self) -> None:
        """Release the lock."""
        ...


_PLACES: dict[Path, Place] = {}


def bind(directory: Path, place: Place) -> None:
    """Keep the files of a directory in remote storage, in this process."""
    _PLACES[directory.resolve()] = place


def unbind(directory: Path) -> None:
    """Undo :func:`bind`."""
    _PLACES.pop(directory.resolve(), None)


def place_of(directory: Path) -> Place | None:
    """Return the remote storage of a results directory, if it has one."""
    return _PLACES.get(directory.resolve()) if _PLACES else None


def fetched(path: Path) -> bytes | None:
    """Return a file that is only in the remote storage of its directory; None where there is none.

    :raises OSError: if it cannot be read.
    """
    for directory, place in _PLACES.items():
        if path.resolve().is_relative_to(directory):
            text = place.get(path.resolve().relative_to(directory).as_posix())
            return None if text is None else text.encode()
    return None


def shown(path: str) -> str | None:
    """Return the name of a file in remote storage; None for any other file."""
    for directory, place in _PLACES.items():
        if Path(path).resolve().is_relative_to(directory):
            return f"{place.name}/{Path(path).resolve().relative_to(directory).as_posix()}".removesuffix("/.")
    return None


# --- processes of this machine ----------------------------------------------------------------------------------------


def is_alive(process_id: int) -> bool:
    """Return whether a process of this machine runs."""
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    # Ended, and only its parent has not noticed.
    return _status(process_id)[:1] != ["Z"]


def start_of(process_id: int) -> str | None:
    """Return the start time of a process, which distinguishes it from a later one of the same id; None if unknown."""
    status = _status(process_id)
    return status[19] if len(status) > 19 else None


def _status(process_id: int) -> list[str]:
    """Return the fields of ``/proc/PID/stat`` from the third on (proc(5)); none where there is no such file."""
    try:
        text = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    # The name in brackets may hold anything.
    return text.rpartition(")")[2].split()
