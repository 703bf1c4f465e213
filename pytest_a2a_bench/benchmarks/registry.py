"""Suites: a benchmark's interface to collection, options, reports and built-in agents, and the list of suites.

What runs a suite's trials (:class:`~pytest_a2a_bench.benchmarks.base.Benchmark`) is named and imported when the first
one runs, so that a thousand tasks are collected without it. So is its player, which the built-in agents ask for the
reference solution of a task.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pytest_a2a_bench import extensions
from pytest_a2a_bench.config.load import CORE, Loaded, Table
from pytest_a2a_bench.config.load import load as load_every
from pytest_a2a_bench.config.setting import Setting, settings_of
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import A2ABenchError, ConfigurationError
from pytest_a2a_bench.model import AgentSaid, Briefing, ToolCall, ToolReturned, ToolSpec
from pytest_a2a_bench.text import did_you_mean

if TYPE_CHECKING:
    from pytest_a2a_bench.benchmarks.base import Benchmark
    from pytest_a2a_bench.benchmarks.diagnosis import Diagnoser
    from pytest_a2a_bench.model import BenchTask, TrialResult

INTERACTIVE = "_interactive"
"""How the name of a domain ends whose questions come from a simulated user."""


def stored_variant(provenance: Mapping[str, Any]) -> str:
    """Return a result's own statement of how its benchmark was changed."""
    return str(provenance.get("variant") or "")


def _nothing(*_: object) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class Suite:
    """A benchmark, as far as everything around its trials needs to know it.

    :param name: also the name of the marker that tests of this suite carry.
    :param domains: every domain that the suite may have, whether installed or not.
    :param modules: domain to importable name of the built-in test module; with ``::test_name`` where only this test of
        the module is the domain's.
    :param available: the domains that are installed.
    :param splits: the splits of a domain.
    :param load_tasks: the tasks of ``(domain, split)``, always in the same order.
    :param describe: task id -> the task's subject, of a domain's tasks; never its expected outcome.
    :param benchmark: importable module whose ``BENCHMARK`` runs this suite's trials.
    :param categories: categories of its tasks, in the order of tables; markers then take ``category=``.
    :param node_prefix: stands before the domain in node ids and tables, where the domain alone would say too little.
    :param offered: the domains that join where the suite or every suite is meant; None for all. Others join where
        they are named (see :meth:`joins`).
    :param bind: returns this suite as certain settings make it, where its tasks depend on options.
    :param why_absent: returns why a domain is not available; by default that it is not installed.
    :param split_names: every split that one of its domains may have: the values of ``--a2a-split``.
    :param settings: a dataclass with its own settings, annotated as those of
        :class:`~pytest_a2a_bench.config.settings.Settings` are; their values are in ``Settings.benchmark_options``.
    :param settings_prefix: precedes the names of the fields of ``settings``, such as ``crm_``.
    :param dialects: the dialects in which its trials can be run; None for all.
    :param why_no_dialect: says why a dialect is not among them; the end of a sentence.
    :param check_options: returns the problems of options that do not go together.
    :param preconditions: returns reasons why no trial of some domains can run, before the first one is paid for.
    :param variant: says, from a result's ``provenance``, how the benchmark was changed for it; empty where it was not.
        Results that were changed in different ways are never averaged.
    :param asked_by: says, for the header, what a run of these domains shows in place of a user, where tasks are
        questions themselves; empty where a user is played.
    :param announce: says, in lines of their own for the header, what a run of these domains is like that its options do
        not say already.
    :param changes: says, for the header, how options change the benchmark, or on which data it is; may be empty.
    :param method: says in one line how these results were evaluated, where there are several ways.
    :param notes: returns facts to know before these results are compared with others, a line each.
    :param remarks: returns facts of one result's task with which its reward must be read, a line each.
    :param reported: members of a result's ``provenance`` that every reporter gets as ``a2a.NAME``.
    :param counts: members of ``provenance["measured"]`` that every reporter gets; tables by category show the mean of
        the first one.
    :param check_titles: kind of a :class:`~pytest_a2a_bench.model.RewardCheck` -> the title above those not met.
    :param short_labels: whether tables call its domains by their own names, without the suite's.
    :param player: importable module whose ``PLAYER`` the built-in agents ask (:class:`Player`): with it
        ``builtin:oracle`` plays this suite's golds.
    :param gold_options: its settings that say where its golds are, by name; built-in agents have them, too.
    :param transfer_tool: the tool by whose call an agent hands a conversation over (``transfer``), where its
        benchmark lets another agent go on then.
    :param extras: requirement (``pytest-a2a-bench[tau2]``) -> its purpose, in a few words, and the
        modules that it brings, for ``a2a-bench doctor``.
    :param exporter: importable module whose ``EXPORT(results, domain, allow_incomplete)`` returns a run as a JSON
        object in the format of the benchmark's own tools, and lines to say about it, for ``a2a-bench export NAME``.
    :param importer: importable module whose ``IMPORT(path)`` returns a run of the benchmark's own tools as
        ``SelectedResults``, and None for everything else.
    :param diagnoser: importable module whose ``DIAGNOSER`` (:class:`~pytest_a2a_bench.benchmarks.diagnosis.Diagnoser`)
        says why a trial missed.
    :param from_test: makes a task of a test that carries its marker, given the test function and the marker's own
        arguments, positional and by keyword, and its label, where each test brings its own task. It raises
        ``ConfigurationError``.
    :param marker_signature: the arguments of its marker then, as they are shown to users.
    :param examine: its lines of ``a2a-bench doctor``: title and text, given the environment.
    """

    name: str
    domains: tuple[str, ...]
    available: Callable[[], tuple[str, ...]]
    splits: Callable[[str], tuple[str, ...]]
    load_tasks: Callable[[str, str], list[BenchTask]]
    describe: Callable[[str], Mapping[str, str]] = lambda domain: {}
    modules: Mapping[str, str] = field(default_factory=dict)
    benchmark: str = ""
    categories: tuple[str, ...] = ()
    node_prefix: str = ""
    offered: tuple[str, ...] | None = None
    bind: Callable[[Settings], Suite] | None = None
    why_absent: Callable[[str], str] | None = None
    split_names: tuple[str, ...] = ("base",)
    settings: type | None = None
    settings_prefix: str = ""
    dialects: tuple[str, ...] | None = None
    why_no_dialect: str = ""
    check_options: Callable[[Settings], Iterable[str]] = _nothing
    preconditions: Callable[[Sequence[str], Settings, Mapping[str, str]], Iterable[str]] = _nothing
    variant: Callable[[Mapping[str, Any]], str] = stored_variant
    asked_by: Callable[[Sequence[str], Settings], str] = lambda domains, settings: ""
    announce: Callable[[Sequence[str], Settings], Iterable[str]] = _nothing
    changes: Callable[[Settings], str] = lambda settings: ""
    method: Callable[[Sequence[TrialResult]], str] = lambda results: ""
    notes: Callable[[Sequence[TrialResult]], Iterable[str]] = _nothing
    remarks: Callable[[TrialResult], Iterable[str]] = _nothing
    reported: tuple[str, ...] = ()
    counts: tuple[str, ...] = ()
    check_titles: Mapping[str, str] = field(default_factory=dict)
    short_labels: bool = False
    player: str = ""
    gold_options: tuple[str, ...] = ()
    transfer_tool: str = ""
    exporter: str = ""
    importer: str = ""
    diagnoser: str = ""
    from_test: Callable[[Callable[..., object], tuple[Any, ...], Mapping[str, Any], str | None], BenchTask] | None = (
        None
    )
    marker_signature: str = ""
    extras: Mapping[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    examine: Callable[[Mapping[str, str]], Iterator[tuple[str, str]]] | None = None

    @property
    def options(self) -> tuple[Setting, ...]:
        """Its own settings."""
        return tuple(settings_of(self.settings, self.settings_prefix).values()) if self.settings is not None else ()

    def absence(self, domain: str) -> str:
        """Explain why a domain is not available."""
        if self.why_absent is not None:
            return self.why_absent(domain)
        return f"is not in the installed {self.name}; it has: {', '.join(self.available())}"

    def joins(self, domain: str, expression: str) -> bool:
        """Return whether a domain is offered to an expression (``-k`` and ``-m``) that need not name it.

        A domain that is not offered to all joins where the expression has its name, or speaks of ``interactive`` ones.
        """
        if self.offered is None or domain in self.offered:
            return True
        words = set(re.findall(r"[A-Za-z0-9]+", expression.lower()))
        if domain.endswith(INTERACTIVE):
            return "interactive" in words
        return domain in words


@dataclass(frozen=True, slots=True)
class Gold:
    """A reference solution: the calls in order, and the information that the user must get.

    :param communicate: texts that the evaluator looks for in the agent's words.
    :param instructions: instructions to the user, a text each.
    :param instructed_after: number of the calls before each instruction; instructions without one come last.
    :param where_offered: calls that are made where there are no others, as far as their tools are offered.
    :param answer: the call that gives the answer, where that is a call: in place of words, at each request.
    """

    calls: tuple[ToolCall, ...] = ()
    communicate: tuple[str, ...] = ()
    where_offered: tuple[ToolCall, ...] = ()
    instructions: tuple[str, ...] = ()
    instructed_after: tuple[int, ...] = ()
    answer: ToolCall | None = None

    @property
    def closing(self) -> str:
        """The one text that says everything the user must hear. One value a line, so that substring checks hold."""
        if not self.communicate:
            return "Everything that can be done for you is done."
        return "\n".join(["Everything that can be done for you is done. For your information:", *self.communicate])

    def is_time_to_tell(self, given: int, done: int) -> bool:
        """Whether the next instruction comes before the next call.

        :param given: instructions that were given.
        :param done: calls that were made, where there are others to make.
        """
        return given < len(self.instructed_after) and self.instructed_after[given] <= done

    def plan(self, briefing: Briefing | None) -> tuple[ToolCall, ...]:
        """Return the calls to make, given the tools on offer."""
        if self.calls or briefing is None:
            return self.calls
        offered = {tool.name for tool in briefing.tools}
        return tuple(call for call in self.where_offered if call.name in offered)


@dataclass(frozen=True, slots=True)
class Step:
    """A call of a solution that was tried out, with its answer.

    :param is_read: whether it changes nothing.
    :param is_gold: whether it is one of the reference solution's own.
    :param before: the answer of a read after a write before that write; empty for any other call.
    """

    call: ToolCall
    answer: str
    is_read: bool = False
    is_gold: bool = False
    before: str = ""


@dataclass(frozen=True, slots=True)
class Player:
    """How the built-in agents act in the conversations of one benchmark. Calls need no ids: the agents number them.

    :param read_gold: the reference solution of ``(domain, task id)`` under settings, of which only the benchmark's own
        options are known (``oracle``, ``readonly``). Raises LookupError, or an error of this package, where there is
        none.
    :param rehearse: tries a solution out in an environment of its own, and returns its calls with their answers:
        also calls that look up the values which it needs, and read back its writes. For runs with noise.
    :param writing: the tools of a domain that change something, which ``readonly`` leaves out.
    :param recognises: whether a conversation with these tools is this benchmark's, where no tag says so.
    :param idle: the reply of an agent that does nothing (``noop``), where its polite words would be no answer.
    :param instructions: a language model's instructions above the policy; empty for the general ones.
    """

    read_gold: Callable[[str, str, Settings], Gold] | None = None
    rehearse: Callable[[str, str, Settings, Gold], tuple[Step, ...]] | None = None
    writing: Callable[[str], frozenset[str]] = lambda domain: frozenset()
    recognises: Callable[[Sequence[ToolSpec]], bool] = lambda tools: False
    idle: AgentSaid | None = None
    instructions: str = ""


def match_call(result: ToolReturned, waiting: list[ToolCall]) -> ToolCall:
    """Return the call that a result answers: by id, else by name, else the oldest."""
    by_id = (c for c in waiting if result.call_id and c.id == result.call_id)
    by_name = (c for c in waiting if c.name == result.name)
    return next(by_id, None) or next(by_name, None) or waiting[0]


BUILT_IN = {
    "tau2": "pytest_a2a_bench.benchmarks.tau2.suite",
    "crmarena": "pytest_a2a_bench.benchmarks.crmarena.suite",
    "a2a_scenario": "pytest_a2a_bench.benchmarks.scenario",
}
"""Our own suites, and the modules that have them as ``SUITE``: the one place that names them."""

PROTOCOL_NAMES = ("conformance", "card", "protocol", "acts")
"""Values of the setting ``suite`` beside benchmarks: all checks of an agent, or those of its card and so on."""

_registered: dict[str, Suite] = {}
_players: dict[str, str] = {}
"""Name of a suite that is not known in this process -> module of its player."""


def built_in() -> list[Suite]:
    """Return our own suites, as any package's plugin offers its own."""
    return [cast("Suite", importlib.import_module(module).SUITE) for module in BUILT_IN.values()]


def register(offered: object) -> None:
    """Add suites that a plugin or conftest offers through the ``pytest_a2a_bench_suites`` hook.

    :raises ConfigurationError: if it returned anything else.
    """
    suites: list[Any] = list(offered) if isinstance(offered, Iterable) else [None]
    if not all(isinstance(suite, Suite) for suite in suites):
        raise ConfigurationError(
            f"pytest_a2a_bench_suites must return a list of Suite objects; it returned {offered!r}"
        )
    for suite in suites:
        if suite.name in BUILT_IN and not any(suite is own for own in built_in()):
            raise ConfigurationError(f"suite {suite.name!r} has the name of a built-in one; give it another")
        if suite.settings is not None and not (isinstance(suite.settings, type) and is_dataclass(suite.settings)):
            raise ConfigurationError(f"suite {suite.name!r}: settings must be a dataclass, and is {suite.settings!r}")
        _registered[suite.name] = suite


def names() -> tuple[str, ...]:
    """Return the names of all suites without importing any."""
    return tuple(dict.fromkeys([*BUILT_IN, *extensions.names("suites"), *_registered]))


def known() -> list[Suite]:
    """Return the suites that are known without a look at installed packages: ours, and those offered by the hook."""
    return [*built_in(), *(suite for name, suite in _registered.items() if name not in BUILT_IN)]


def group_names() -> set[str]:
    """Return every name that trials can be grouped by: suites, domains, categories, and these with slashes between.

    Of an installed suite that cannot be loaded only the name is known.
    """
    found = set(names())
    for name in names():
        with contextlib.suppress(ConfigurationError):
            suite = load(name)
            found |= {*suite.domains, *suite.categories, *(f"{name}/{domain}" for domain in suite.domains)}
            found |= {f"{name}/{domain}/{category}" for domain in suite.domains for category in suite.categories}
    return found


def every_setting() -> dict[str, Setting]:
    """Return every setting by name: those of the core, then those of benchmarks.

    :raises ConfigurationError: if two of them have one name.
    """
    found = dict(CORE)
    for suite in known():
        for setting in suite.options:
            if setting.name in found:
                raise ConfigurationError(f"suite {suite.name!r}: there is another setting {setting.key!r} already")
            found[setting.name] = setting
    return found


def load_settings(
    *,
    options: Mapping[str, str],
    assignments: Sequence[str],
    environ: Mapping[str, str],
    table: Table,
    directory: Path,
    prefix: str = "--a2a-",
) -> Loaded:
    """Load the settings of the core and of benchmarks (:func:`pytest_a2a_bench.config.load.load`).

    :return: the settings; suites and splits that no known benchmark has are among the problems, too.
    """
    known = every_setting()
    loaded = load_every(
        options=options,
        assignments=assignments,
        environ=environ,
        table=table,
        directory=directory,
        known=known,
        prefix=prefix,
    )
    return dataclasses.replace(loaded, problems=(*loaded.problems, *_unknown_names(loaded)))


def _unknown_names(loaded: Loaded) -> Iterator[str]:
    """Yield a line for suites and a split that no known benchmark has."""
    settings = loaded.settings
    if "suite" in loaded.sources:
        where = loaded.sources["suite"].name
        domains = [domain for suite in load_all() for domain in suite.domains]
        valid = tuple(dict.fromkeys([*names(), *domains, *PROTOCOL_NAMES]))
        if unknown := [name for name in settings.suite if name not in valid]:
            near = did_you_mean(unknown, valid)
            yield f"{where}: unknown suite {', '.join(map(repr, unknown))}; valid are: {', '.join(valid)}{near}"
        elif not settings.suite:
            yield f"{where}: no suite is named; valid are: {', '.join(valid)}"
    splits = tuple(dict.fromkeys(split for suite in known() for split in suite.split_names))
    if settings.split not in splits:
        where = loaded.sources["split"].name
        near = did_you_mean(settings.split, splits)
        yield f"{where}: {settings.split!r} is not one of {', '.join(splits)}{near}"


def places() -> list[Setting]:
    """Return the benchmarks' options that say where data are; results identify the data."""
    return [option for suite in known() for option in suite.options if option.locate is not None]


def without_places(settings: Settings) -> Settings:
    """Return settings without the places of the benchmarks' data."""
    nowhere = {option.name: option.default for option in places() if option.name in settings.benchmark_options}
    return dataclasses.replace(settings, benchmark_options={**settings.benchmark_options, **nowhere})


def load(name: str, settings: Settings | None = None) -> Suite:
    """Return a suite by its name.

    :param settings: the run's; without them a suite has its defaults.
    :raises ConfigurationError: if there is none, or it cannot be imported.
    """
    suite = _load(name)
    return suite.bind(settings) if suite.bind is not None and settings is not None else suite


def load_all(settings: Settings | None = None) -> Iterator[Suite]:
    """Yield every suite, in the order of :func:`names`."""
    for name in names():
        yield load(name, settings)


def find(name: str) -> Suite | None:
    """Return a suite by its name, or None: stored results may be of one that is not installed here."""
    try:
        return _load(name)
    except ConfigurationError:
        return None


_LONG = 60
"""Letters of a task's id above which the tasks of its domain are numbered, too."""


@functools.cache
def _numbers(suite: str, domain: str) -> Mapping[str, int]:
    """Return task id -> its place in the domain's list, from 0; none where ids are short or are not known here."""
    found = find(suite)
    if found is None or found.from_test is not None or found.categories:
        return {}
    with contextlib.suppress(A2ABenchError, OSError, ValueError):
        others = (split for split in sorted(found.splits(domain)) if split != "base")
        ids = dict.fromkeys(task.task_id for split in ("base", *others) for task in found.load_tasks(domain, split))
        return {id: number for number, id in enumerate(ids)} if max(map(len, ids), default=0) > _LONG else {}
    return {}


def short_name(task_key: str) -> str:
    """Return ``telecom/17`` for a task whose domain has long ids, by its place in the domain's list; else empty.

    :param task_key: ``suite/domain/task``, also with ``#trial`` and so on, which the name keeps.
    """
    task, hash, trial = task_key.rpartition("#") if re.search(r"#\d+\S*$", task_key) else (task_key, "", "")
    suite, _, rest = task.partition("/")
    domain, _, id = rest.partition("/")
    number = _numbers(suite, domain).get(id)
    return "" if number is None else f"{label_of(suite, domain)}/{number}{hash}{trial}"


def shown_name(task_key: str) -> str:
    """Return a task or trial as reports name it and ``a2a-bench show`` takes it: ``telecom/17``, ``retail/23#0``."""
    suite, _, rest = task_key.partition("/")
    domain, _, id = rest.partition("/")
    return short_name(task_key) or (f"{label_of(suite, domain)}/{id}" if id else task_key)


def label_of(suite: str, domain: str, variant: str = "") -> str:
    """Return a domain's name in tables: its own where no other suite has the same.

    :param variant: how the benchmark was changed, if it was.
    """
    found = find(suite)
    name = domain if found is not None and found.short_labels else f"{suite}/{domain}"
    return f"{name} ({variant})" if variant else name


def variant_of(result: TrialResult) -> str:
    """Return the group within a domain that a trial is averaged with: its agent's name, where agents have names, and
    how the benchmark was changed for it (:func:`change_of`).
    """
    return ", ".join(filter(None, (result.key.agent, change_of(result))))


def change_of(result: TrialResult) -> str:
    """Describe how the benchmark was changed for a trial (``drift low``); empty where it was not.

    The suite says it, also of results that an older version stored; of a suite that is not installed the result's own
    word is taken.
    """
    # Stored results travel: they are compared on machines where the suite's package was never installed.
    suite = find(result.key.suite)
    return suite.variant(result.provenance) if suite is not None else stored_variant(result.provenance)


def remarks_of(result: TrialResult) -> tuple[str, ...]:
    """Return the facts of a result's task with which its reward must be read, a line each."""
    suite = find(result.key.suite)
    return tuple(suite.remarks(result)) if suite is not None else ()


def get_benchmark(name: str) -> Benchmark:
    """Return the benchmark of a suite; raises ConfigurationError if there is no such suite, or it names no module."""
    module = _load(name).benchmark
    if not module:
        raise ConfigurationError(f"the suite {name!r} names no benchmark module, so its trials cannot be run")
    from pytest_a2a_bench.dialects.serialization import despite_parsers  # in runs with trials only

    # In a trial's thread, where pytest's assertion rewriting parses the module.
    return cast("Benchmark", despite_parsers(lambda: importlib.import_module(module)).BENCHMARK)


def register_players(modules: Mapping[str, str]) -> None:
    """Register suites that only the run's conftest offers, in a process that serves a built-in agent."""
    _players.update(modules)


def offered_players() -> dict[str, str]:
    """Return the players that such a process needs: suite -> module."""
    return {name: suite.player for name, suite in _registered.items() if name not in BUILT_IN and suite.player}


def get_player(name: str) -> Player | None:
    """Return a suite's player for the built-in agents; None where it has none.

    :raises ConfigurationError: if there is no such suite, or its player cannot be imported.
    """
    # Players that a process was given come first: one that serves an agent never sees the run's conftest, so it cannot
    # load the suite.
    module = _players.get(name) or _load(name).player
    if not module:
        return None
    return cast("Player", _part("player", name, module))


def _part(kind: str, suite: str, module: str) -> Any:
    """Return a member of a suite's module, such as ``PLAYER``.

    :raises ConfigurationError: if it cannot be loaded.
    """
    try:
        return getattr(importlib.import_module(module), kind.upper())
    # Ours or anybody's module: what is wrong with it is for its author to read, in one line.
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"the {kind} of suite {suite!r} cannot be loaded from {module!r}: {error}") from error


def get_diagnoser(name: str) -> Diagnoser | None:
    """Return the diagnoser of a suite's failed trials; None where it has none, or is not installed here."""
    suite = find(name)
    if suite is None or not suite.diagnoser:
        return None
    return cast("Diagnoser", _part("diagnoser", name, suite.diagnoser))


def players() -> Iterator[tuple[str, Player]]:
    """Yield every suite's player; one that cannot be loaded is passed over, as its suite was not asked for."""
    for name in dict.fromkeys([*_players, *names()]):
        with contextlib.suppress(ConfigurationError):
            player = get_player(name)
            if player is not None:
                yield name, player


def _load(name: str) -> Suite:
    if name in _registered:
        return _registered[name]
    if name in BUILT_IN:
        return cast("Suite", importlib.import_module(BUILT_IN[name]).SUITE)
    extension = extensions.find("suites", name, BUILT_IN)
    if extension is None:
        raise ConfigurationError(
            f"there is no suite {name!r}; valid are: {', '.join(names())}{did_you_mean(name, names())}"
        )
    return cast("Suite", extension.load())
