"""What a pytest run gets that may never use us: options and markers, from a literal table.

The plugin is loaded in every pytest run of whoever has it installed. So ``declared.json`` says what the tables of
options and the suites come to (``python tests/support/declared.py`` writes it, a test compares), and classes, readers
and suites are imported when somebody uses us: by an option in any spelling, a test that takes our fixtures, workers, or
a plugin that offers a suite.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_a2a_bench.benchmarks.suite import Suite

DECLARED = Path(__file__).with_name("declared.json")
"""``core`` and ``suites``: rows as :func:`declare` takes them; ``markers``: lines of the ini option of that name."""

Row = Mapping[str, Any]

RowsOf = Callable[["list[Suite]"], Iterable[tuple[str, list[Row]]]]

_OWN = "pytest_a2a_bench.plugin"

REPEATED = frozenset({"suites", "endpoint", "colleague", "report"})
"""Options that may be given several times."""

OUR_FIXTURES = frozenset({"trial", "bench_task", "_a2a_key", "_a2a_endpoint", "_a2a_check"})
"""What the tests take that need more than fixtures: every other fixture of ours asks for one of these."""

_WAKE: pytest.StashKey[Callable[[], None]] = pytest.StashKey()


class Declarations:
    """Declares options: the literal table's now, and those of suites as the plugins come that offer them.

    pytest reads the command line once the conftest files of the rootdir are loaded. So what they offer is in time,
    while the hook itself, called when pytest is configured, would come too late for an option.

    :param rows_of: registers suites, and returns for each one its name and how its options are declared.
    """

    def __init__(self, parser: pytest.Parser, rows_of: RowsOf) -> None:
        declared = json.loads(DECLARED.read_bytes())
        self.rows: list[Row] = []
        self.markers: list[str] = declared["markers"]
        self.foreign = False
        self._parser = parser
        self._rows_of = rows_of
        self._owners: dict[str, str] = {}
        for owner, rows in (("the core", declared["core"]), *declared["suites"].items()):
            for row in rows:
                self._declare(owner, row)

    def pytest_plugin_registered(self, plugin: object) -> None:
        """Look at one plugin; pytest tells of those before this one, too."""
        if getattr(plugin, "__name__", "") == _OWN:  # the literal table has ours
            return
        offer = getattr(plugin, "pytest_a2a_bench_suites", None)
        if not inspect.isroutine(offer):  # a plugin may be an object that has every attribute one asks for
            return
        self.foreign = True
        # Each time it is called a suite may be another object; the last one counts.
        suites: list[Suite] = list(offer())
        for suite, rows in self._rows_of(suites):
            for row in rows:
                # Two suites with one option would read each other's values.
                owner = self._owners.get(row["name"])
                if owner is None:
                    self._declare(suite, row)
                elif owner != suite:
                    raise pytest.UsageError(f"suite {suite!r}: the option {row['cli']} belongs to {owner} already")

    def _declare(self, owner: str, row: Row) -> None:
        self._owners[row["name"]] = owner
        self.rows.append(row)
        declare(self._parser, row)


def declare(parser: pytest.Parser, row: Row) -> None:
    """Declare one option.

    :param row: the name of its setting, its spellings (``cli``, and ``dest``, which is the ini key as well), and texts.
    """
    group = parser.getgroup("a2a", "A2A agent benchmarks")
    cli, dest, text = row["cli"], row["dest"], row["help"]
    shown = f"{text} (default: {row['default']}; env {dest.upper()}; ini {dest})"
    # store_const and no boolean: all values arrive as text and are read in one place.
    if row.get("flag"):
        group.addoption(cli, dest=dest, action="store_const", const="on", default=None, help=shown)
        opposite = cli.replace("--a2a-", "--a2a-no-", 1)
        group.addoption(opposite, dest=dest, action="store_const", const="off", help=f"The opposite of {cli}")
    else:
        action = "append" if row["name"] in REPEATED else "store"
        # "--a2a-live" may stand alone.
        bare = {"nargs": "?", "const": row["bare"]} if "bare" in row else {}
        group.addoption(cli, dest=dest, action=action, default=None, metavar=row["metavar"], help=shown, **bare)
    parser.addini(dest, f"{text}: what {cli} says where it is not given", default=None)


def may_rest(config: pytest.Config, declarations: Declarations) -> bool:
    """Tell whether nobody asks for anything of ours: by option, variable, ini key, node id, suite or worker."""
    if declarations.foreign or hasattr(config, "workerinput"):
        return False
    names = [row["dest"] for row in declarations.rows]
    if any(getattr(config.option, name, None) is not None or os.environ.get(name.upper()) for name in names):
        return False
    # Such a path may be the user's own, which is for the selection to find out.
    paths = (argument.partition("::")[0].replace("\\", "/").lstrip("./") for argument in config.args)
    return not any(path == "a2a" or path.startswith("a2a/") for path in paths) and not any(_in_ini(config, names))


def _in_ini(config: pytest.Config, names: Iterable[str]) -> Iterator[bool]:
    for name in names:
        try:
            yield bool(config.getini(name))
        except (TypeError, ValueError):  # a native TOML value of another type
            yield True


def rest(config: pytest.Config, declarations: Declarations, begin: Callable[[], None]) -> None:
    """Do nothing until somebody uses us.

    :param begin: does then what is done otherwise when pytest is configured.
    """
    add_markers(config, declarations.markers)
    config.stash[_WAKE] = begin


def add_markers(config: pytest.Config, lines: Iterable[str]) -> None:
    """Register markers that are not registered yet."""
    there = frozenset(config.getini("markers"))
    for line in lines:
        if line not in there:
            config.addinivalue_line("markers", line)


def is_resting(config: pytest.Config) -> bool:
    """Tell whether nobody used us so far."""
    return _WAKE in config.stash


def wake(config: pytest.Config) -> None:
    """Begin, if that has not been done: somebody uses us."""
    begin = config.stash.get(_WAKE, None)
    if begin is not None:
        del config.stash[_WAKE]
        begin()
