"""Environment variables from the file that ``env-file`` names; no other ``.env`` is ever read.

Lines are ``NAME=VALUE``, with ``export`` before and quotes around the value where wanted; ``#`` begins a comment. What
is set in the environment already stays. Values are taken as they are: nothing is expanded in them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path

from pytest_a2a_bench.errors import ConfigurationError

_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)", re.ASCII)
_VALUES = (
    re.compile(r"'([^']*)'\s*(?:#.*)?"),
    re.compile(r'"((?:[^"\\]|\\.)*)"\s*(?:#.*)?'),
    re.compile(r"([^'\"].*?)??(?:(?:^|\s+)#.*)?"),
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def read(path: Path) -> dict[str, str]:
    """Return the variables of a file.

    :raises ConfigurationError: if it cannot be read, or a line of it is not ``NAME=VALUE``; no value is repeated.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: not UTF-8 (byte {error.start})") from None
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            name, value = _read_line(line.strip(), f"{path}, line {number}")
            found[name] = value
    return found


def _read_line(line: str, where: str) -> tuple[str, str]:
    match = _LINE.fullmatch(line)
    if match is None or "\0" in line:
        raise ConfigurationError(f"{where}: expected NAME=VALUE, as OPENAI_API_KEY=...")
    kind = {"'": 0, '"': 1}.get(match[2][:1], 2)
    value = _VALUES[kind].fullmatch(match[2])
    if value is None:
        raise ConfigurationError(f"{where}: the quote around the value of {match[1]} is not closed, or text follows it")
    plain = value[1] or ""
    return match[1], re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), plain) if kind == 1 else plain


def lend(variables: Mapping[str, str], environ: MutableMapping[str, str]) -> Callable[[], None]:
    """Set variables that the environment does not have, and return what takes them away again."""
    lent = {name: value for name, value in variables.items() if name not in environ}
    environ.update(lent)

    def take_back() -> None:
        for name, value in lent.items():
            if environ.get(name) == value:
                del environ[name]

    return take_back
