"""The built-in test modules, and everything that leans on pytest's private parts, with its own tests."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from _pytest._code.code import ExceptionChainRepr, TerminalRepr

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.redact import HidingStream

CONFORMANCE = "conformance"


@dataclass(frozen=True, slots=True)
class SuiteModuleSpec:
    """A built-in test module, or one test of it: its name on the command line and its place.

    :param module: importable name, with ``::test_name`` where one test is meant.
    """

    suite: str
    domain: str
    module: str
    prefix: str = ""

    @property
    def nodeid(self) -> str:
        """``a2a/airline``, ``a2a/crmarena_mini``."""
        return f"a2a/{self.prefix}{self.domain}"


_CHECKS = "pytest_a2a_bench.suites.test_conformance"

ACTS = SuiteModuleSpec(CONFORMANCE, "acts", f"{_CHECKS}::test_acts")
"""The module of the tests in ACTS files, which there are where ``acts`` names some."""

GATEWAY = SuiteModuleSpec(CONFORMANCE, "gateway", f"{_CHECKS}::test_gateway")
"""The module that compares a gateway with the agent behind it, which there is where ``direct`` names that agent."""

CONFORMANCE_MODULES = (
    SuiteModuleSpec(CONFORMANCE, "card", f"{_CHECKS}::test_card"),
    SuiteModuleSpec(CONFORMANCE, "protocol", f"{_CHECKS}::test_protocol"),
    ACTS,
    GATEWAY,
)
"""The modules that judge the agent's protocol; they have requirements where a benchmark has tasks."""


def all_modules() -> Iterator[SuiteModuleSpec]:
    """Yield every built-in module."""
    for suite in registry.load_all():
        for domain, module in suite.modules.items():
            yield SuiteModuleSpec(suite.name, domain, module, suite.node_prefix)
    yield from CONFORMANCE_MODULES


def joins(module: SuiteModuleSpec, settings: Settings, expression: str = "") -> bool:
    """Return whether a module is meant where its suite is, or every suite."""
    if module.suite == CONFORMANCE:
        return {ACTS: settings.acts, GATEWAY: settings.direct}.get(module, "") is not None
    return registry.load(module.suite, settings).joins(module.domain, expression)


def judge_protocol(nodeids: Iterable[str]) -> bool:
    """Return whether node ids name one of the modules that judge the protocol, or all modules."""
    names = [module.nodeid for module in CONFORMANCE_MODULES]
    return any(is_below(i, name) or is_below(name, i) for i in nodeids for name in names)


class SuiteModule(pytest.Module):
    """A built-in test module, under a node id of its own (``a2a/airline``).

    It is imported by its package name, so the user's import mode and ``python_files`` do not matter to it, and
    neither does where the package is installed.
    """

    spec: SuiteModuleSpec
    imported: str
    test: str
    wanted: tuple[str, ...]

    @classmethod
    def graft(cls, session: pytest.Session, spec: SuiteModuleSpec, wanted: tuple[str, ...]) -> SuiteModule:
        """Make a module below the session.

        :param wanted: node ids to keep; none for all.
        """
        name, _, test = spec.module.partition("::")
        found = importlib.util.find_spec(name)
        if found is None or found.origin is None:
            raise ImportError(f"built-in suite module {name} is not installed")
        module: SuiteModule = cls.from_parent(session, path=Path(found.origin), nodeid=spec.nodeid, name=spec.nodeid)
        module.spec, module.imported, module.test = spec, name, test
        module.wanted = wanted
        return module

    def _getobj(self) -> ModuleType:
        return importlib.import_module(self.imported)

    def funcnamefilter(self, name: str) -> bool:
        """Accept pytest's default names, whatever the user's ini says."""
        return name == self.test if self.test else name.startswith("test")

    def classnamefilter(self, name: str) -> bool:
        """Accept pytest's default names, whatever the user's ini says."""
        return name.startswith("Test")

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Collect the module, without items that the command line does not name."""
        return [node for node in super().collect() if self._is_wanted(node)]

    def _is_wanted(self, node: pytest.Item | pytest.Collector) -> bool:
        return not self.wanted or any(is_below(node.nodeid, w) or is_below(w, node.nodeid) for w in self.wanted)


def hide_traceback(report: pytest.TestReport, message: str) -> None:
    """Leave out of a failure's text where it was raised, and give it another message; its sections stay.

    On a CI system pytest's short summary shows the message whole, with every line of the assertion that failed.
    """
    if isinstance(report.longrepr, ExceptionChainRepr):
        for traceback, _, _ in report.longrepr.chain:
            traceback.reprentries = []
        if report.longrepr.reprcrash is not None:
            report.longrepr.reprcrash.message = message


def leave_out_of_failures(report: pytest.TestReport) -> None:
    """Keep a report out of the terminal's section of failures; it is counted and in the short summary all the same."""
    vars(report)["_pdbshown"] = True


def is_below(nodeid: str, ancestor: str) -> bool:
    """Return whether a node id is another or one of its parts: a test in a module, a case of a test."""
    return nodeid == ancestor or nodeid.startswith((ancestor + "::", ancestor + "[", ancestor + "/"))


def would_select(keyword: str, marker: str, names: Iterable[str], marks: Mapping[str, Mapping[str, str]]) -> bool:
    """Return whether ``-k`` and ``-m`` would select an item that does not exist yet; true where that is unknown.

    :param names: the keywords for ``-k``.
    :param marks: the item's markers with their keyword arguments.
    """
    try:
        lower = [name.lower() for name in names]

        def by_name(word: str, /, **_: Any) -> bool:
            return any(word.lower() in name for name in lower)

        def by_mark(name: str, /, **wanted: Any) -> bool:
            return name in marks and all(marks[name].get(k) == v for k, v in wanted.items())

        return (not keyword or _expression(keyword).evaluate(by_name)) and (
            not marker or bool(_expression(marker).evaluate(by_mark))
        )
    except Exception:  # a syntax error, which pytest itself reports, or another pytest
        return True


def expression_problems(config: pytest.Config) -> Iterator[str]:
    """Yield what is wrong with ``-k`` and ``-m``; pytest says so after collection, and xdist's workers break on it."""
    for option, name in (("-k", "keyword"), ("-m", "markexpr")):
        text = (config.getoption(name) or "").lstrip()
        try:
            if text:
                _expression(text)
        except ImportError:  # another pytest
            return
        # pytest 8 has an exception of its own, which says the column.
        except Exception as error:
            column = f"at column {error.offset}: {error.msg}" if isinstance(error, SyntaxError) else error
            yield f"{option} {text!r} is no expression: {column}"


@functools.cache
def _expression(text: str) -> Any:
    from _pytest.mark.expression import Expression

    return Expression.compile(text)


def fixture_definition(node: Any, name: str) -> pytest.FixtureDef[Any] | None:
    """Return the fixture definition that a test gets, or None if pytest does not know.

    :param node: a test function, or the ``definition`` of a Metafunc.
    """
    info = getattr(node, "_fixtureinfo", None)
    definitions = getattr(info, "name2fixturedefs", {}).get(name)
    return definitions[-1] if definitions else None


def describe_fixture(definition: pytest.FixtureDef[Any] | None) -> str:
    """Report where a fixture is defined: ``tests/conftest.py:12``, as far as it is known."""
    code = getattr(getattr(definition, "func", None), "__code__", None)
    if code is None:
        return "an unknown place"
    return f"{code.co_filename}:{code.co_firstlineno}"


_TELL_NOTHING = {"properties", "system-out", "system-err"}


def drop_earlier_attempts(config: pytest.Config) -> None:
    """Let junit have one test case for each trial that ran several times: it makes one for every attempt.

    Those of earlier attempts hold no outcome, and count nowhere.
    """
    from _pytest.junitxml import xml_key

    junit: Any = config.stash.get(xml_key, None)
    if junit is None:
        return
    cases = [(reporter, reporter.to_xml()) for reporter in junit.node_reporters_ordered]
    last = {(case.get("classname"), case.get("name")): case for _, case in cases}
    trials = {name for name, case in last.items() if case.find("properties/property[@name='a2a.key']") is not None}
    trials.add((None, None))  # begun for an item whose worker crashed, and that another one ran then
    junit.node_reporters_ordered[:] = [
        reporter
        for reporter, case in cases
        if (name := (case.get("classname"), case.get("name"))) not in trials
        or (last[name] is case and None not in name)
        or not {child.tag for child in case} <= _TELL_NOTHING
    ]


def has_used(item: pytest.Item, fixture: str) -> bool:
    """Return whether an item asks for a fixture, or asked for it while it ran."""
    asked = getattr(getattr(item, "_request", None), "_fixture_defs", ())
    return fixture in getattr(item, "fixturenames", ()) or fixture in asked


def ini_file(config: pytest.Config, arguments: Sequence[str]) -> Path | None:
    """Return the ini file that pytest would read if the command line named these places, or None."""
    import inspect

    from _pytest.config.findpaths import determine_setup

    known = config.known_args_namespace
    values = {
        "inifile": known.inifilename,
        "override_ini": known.override_ini,
        "args": list(arguments),
        "rootdir_cmd_arg": known.rootdir or None,
        "invocation_dir": config.invocation_params.dir,
    }
    taken = inspect.signature(determine_setup).parameters  # 8.4 does not take override_ini
    found: Path | None = determine_setup(**{n: v for n, v in values.items() if n in taken})[1]
    return found


def watch_terminal(config: pytest.Config) -> None:
    """Let everything that pytest writes to the terminal pass through a stream that hides secrets."""
    if config.pluginmanager.get_plugin("terminalreporter") is None:
        return
    writer: Any = config.get_terminal_writer()
    stream = getattr(writer, "_file", None)
    if stream is not None and not isinstance(stream, HidingStream):
        writer._file = HidingStream(stream)


_KEPT = ("nodeid", "location", "keywords", "outcome", "when")
"""The key of reports: pytest and xdist find items by it."""


def conceal_report(report: object, hide: Callable[[str], str]) -> None:
    """Change all texts of a report, those included that other plugins put into it."""
    for name, value in vars(report).items():
        if name not in _KEPT:
            setattr(report, name, conceal(value, hide))


def conceal(value: Any, hide: Callable[[str], str]) -> Any:
    """Return a value with its texts changed; pytest's representation of an exception is changed in place."""
    if isinstance(value, str):
        hidden = hide(value)
        return value if hidden == value else hidden
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        # Reports live as long as a run, and the three of a trial share its properties: what is clean is not copied.
        changed = tuple(conceal(v, hide) for v in value)
        return value if all(map(operator.is_, value, changed)) else changed
    if isinstance(value, list):
        return [conceal(v, hide) for v in value]
    if isinstance(value, dict):
        return {k: conceal(v, hide) for k, v in value.items()}
    if isinstance(value, TerminalRepr):
        for name, inner in vars(value).items():
            setattr(value, name, conceal(inner, hide))
    return value
