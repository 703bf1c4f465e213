"""How stored files are read: bytes within bounds, JSON, and a dataclass that pydantic validates.

What is wrong with a file is one line that names the file, the place in it, what is there, and what to do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pytest_a2a_bench.errors import A2ABenchError
from pytest_a2a_bench.redact import one_line

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
    :param complaint: what is said of a file that is not one, after its path.
    :param remedy: what to do then.
    :param error: the exception that says it.
    :param version: its ``schema_version``; 0 where it says none.
    :param schema: its ``schema``; empty where it says none.
    :param check: says what is wrong with content of the right types, as place and text; None where nothing is.
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
            raise self._refusal(path, f"it cannot be read: {error.strerror or error}") from error
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


JSON_FILE: StoredForm[object] = StoredForm(
    object, "", "check that it is the file that was meant", A2ABenchError, version=0
)
"""Any JSON."""


@dataclass(frozen=True, slots=True)
class _Head:
    schema: Any = None
    schema_version: Any = None


_ADAPTERS: dict[type[Any], TypeAdapter[Any]] = {}


def adapter_of(content: type[Any]) -> TypeAdapter[Any]:
    """Return what validates a type; making it takes as long as reading a hundred files, so it is kept."""
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
    """Say in one line which place is wrong first, and how."""
    first, *others = error.errors(include_url=False, include_context=False)
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
    """Say in one short line what a value is, in JSON's words."""
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
