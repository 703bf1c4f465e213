"""What an option is: one name in three spellings, and how its text becomes a value. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Option:
    """One option in its three spellings: ``--a2a-NAME``, ``A2A_NAME`` and ini ``a2a_NAME``.

    :param name: the name of the field in :class:`Settings`, or for a benchmark's own option its key in
        ``Settings.benchmark_options``.
    :param read: turns text into the value, or raises ValueError with what would be valid.
    :param flag: True for a switch that takes no value (and has a ``--a2a-no-`` form).
    :param bare: what it says where it is given without a value, if it may be.
    :param option: how it is spelt, where that is not its name.
    :param default: what a benchmark's own option is where nobody gives it; a core option's default is its field's.
    :param locate: for a value that says where something is: makes it absolute, given the text and the directory that
        relative names start from. Such a value may be elsewhere when a stored result is looked at again.
    """

    name: str
    metavar: str
    help: str
    read: Callable[[str], Any]
    flag: bool = False
    bare: str = ""
    option: str = ""
    default: Any = None
    locate: Callable[[Any, Path], Any] | None = None

    @property
    def cli(self) -> str:
        """The command line spelling."""
        return "--a2a-" + self.cli_stem

    @property
    def cli_stem(self) -> str:
        """What follows ``--a2a-``."""
        return (self.option or self.name).replace("_", "-")

    @property
    def dest(self) -> str:
        """Where argparse keeps it."""
        return f"a2a_{self.option or self.name}"

    @property
    def env(self) -> str:
        """The environment variable."""
        return self.dest.upper()

    @property
    def ini(self) -> str:
        """The ini key."""
        return self.dest


def describe_default(option: Option, defaults: Mapping[str, Any]) -> str:
    """Return a default as ``--help`` shows it.

    :param defaults: those of the core's options by name.
    """
    default = defaults.get(option.name, option.default)
    # In Python 0 equals False, and 0 is a default worth showing.
    if default is None or default in ((), {}):
        return "none"
    if isinstance(default, bool):
        return "on" if default else "off"
    return f"{default:g}" if isinstance(default, float) else str(default)
