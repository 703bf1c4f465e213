"""A suite: a benchmark as collection, options and reports need to know it, described by data and a few functions.

What runs its trials (:class:`~pytest_a2a_bench.benchmarks.base.Benchmark`) is named and imported when the first one
runs, so that a thousand tasks are collected without it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_a2a_bench.config.setting import Setting, settings_of
from pytest_a2a_bench.config.settings import Settings

if TYPE_CHECKING:
    from pytest_a2a_bench.model import BenchTask, TrialResult

INTERACTIVE = "_interactive"
"""How the name of a domain ends whose questions come from a simulated user."""


def stored_variant(provenance: Mapping[str, Any]) -> str:
    """Return what a result says itself of how its benchmark was changed."""
    return str(provenance.get("variant") or "")


def _nothing(*_: object) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class Suite:
    """A benchmark, as far as everything around its trials needs to know it.

    :param name: also the name of the marker that tests of this suite carry.
    :param domains: every domain that the suite may have, whether installed or not.
    :param modules: domain to importable name of the built-in test module.
    :param available: the domains that are installed.
    :param splits: the splits of a domain.
    :param load_tasks: the tasks of ``(domain, split)``, always in the same order.
    :param describe: task id -> what the task is about, of a domain's tasks; never what it expects.
    :param benchmark: importable module whose ``BENCHMARK`` runs this suite's trials.
    :param categories: what its tasks may be about, in the order of tables; markers then take ``category=``.
    :param node_prefix: stands before the domain in node ids and tables, where the domain alone would say too little.
    :param offered: the domains that join where the suite or every suite is meant; None for all. Others join where
        they are named (see :meth:`joins`).
    :param bind: returns this suite as certain settings make it, where its tasks depend on options.
    :param why_absent: says what a domain lacks that is not available; by default that it is not installed.
    :param split_names: every split that one of its domains may have: what ``--a2a-split`` takes.
    :param settings: a dataclass with its own settings, annotated as those of
        :class:`~pytest_a2a_bench.config.settings.Settings` are; their values are in ``Settings.benchmark_options``.
    :param settings_prefix: precedes the names of the fields of ``settings``, such as ``crm_``.
    :param dialects: the dialects in which its trials can be run; None for all.
    :param why_no_dialect: says why a dialect is not among them; the end of a sentence.
    :param check_options: says what is wrong with options that do not go together; given whether only a list is wanted.
    :param preconditions: says what keeps all trials of some domains from running, before the first one is paid for.
    :param variant: says, from a result's ``provenance``, how the benchmark was changed for it; empty where it was not.
        Results that were changed in different ways are never averaged.
    :param asked_by: says, for the header, what a run of these domains shows in place of a user, where tasks are
        questions themselves; empty where a user is played.
    :param announce: says, in lines of their own for the header, what a run of these domains is like that its options do
        not say already.
    :param changes: says, for the header, how options change the benchmark, or on which data it is; may be empty.
    :param method: says in one line how these results were evaluated, where there are several ways.
    :param notes: says what must be known before these results are compared with others, a line each.
    :param remarks: says what is known of one result's task that its reward must be read with, a line each.
    :param reported: members of a result's ``provenance`` that every reporter gets as ``a2a.NAME``.
    :param counts: members of ``provenance["measured"]`` that every reporter gets; tables by category show the mean of
        the first one.
    :param check_titles: kind of a :class:`~pytest_a2a_bench.model.RewardCheck` -> what stands above those not met.
    :param short_labels: whether tables call its domains by their own names, without the suite's.
    :param player: importable module whose ``PLAYER`` the built-in agents ask (:class:`~.player.Player`): with it
        ``builtin:oracle`` plays this suite's golds.
    :param gold_options: its settings that say where its golds are, by name; built-in agents have them, too.
    :param transfer_tool: the tool by whose call an agent hands a conversation over (``transfer``), where its
        benchmark lets another agent go on then.
    :param extras: what to install for it (``pytest-a2a-bench[tau2]``) -> what that is for, in a few words, and the
        modules that it brings, for ``a2a-bench doctor``.
    :param exporter: importable module whose ``EXPORT(results, domain, allow_incomplete)`` returns a run as a JSON
        object in the format of the benchmark's own tools, and lines to say about it, for ``a2a-bench export NAME``.
    :param diagnoser: importable module whose ``DIAGNOSER`` (:class:`~pytest_a2a_bench.benchmarks.diagnosis.Diagnoser`)
        says why a trial missed.
    :param from_test: makes a task of a test that carries its marker, given the test function and the marker's own
        arguments, positional and by keyword, and its label, where each test brings its own task. It raises
        ``ConfigurationError``.
    :param marker_signature: what its marker takes then, as it is shown to users.
    :param examine: what ``a2a-bench doctor`` says of it: title and text, given the environment.
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
    check_options: Callable[[Settings, bool], Iterable[str]] = _nothing
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
        """Say why a domain is not available."""
        if self.why_absent is not None:
            return self.why_absent(domain)
        return f"is not in the installed {self.name}; it has: {', '.join(self.available())}"

    @property
    def interactive(self) -> bool:
        """Whether it has domains in which a user asks, beside those in which a task does."""
        return any(domain.endswith(INTERACTIVE) for domain in self.domains)

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
