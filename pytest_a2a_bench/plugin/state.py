"""The state of a pytest process: the plan of its run, collected items, running services, and a worker's part."""

from __future__ import annotations

import dataclasses
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from pytest_a2a_bench.config.settings import Settings, without_query
from pytest_a2a_bench.plugin import options
from pytest_a2a_bench.redact import KNOWN, SecretUrl
from pytest_a2a_bench.text import sanitise

if TYPE_CHECKING:
    from pytest_a2a_bench.agents.options import BuiltinAgent
    from pytest_a2a_bench.conformance.acts.suite import ActsSuite
    from pytest_a2a_bench.conformance.engine import Judge
    from pytest_a2a_bench.conformance.gateway.run import Pair
    from pytest_a2a_bench.conformance.subject import Subject
    from pytest_a2a_bench.conformance.waivers import Waiver
    from pytest_a2a_bench.model import BenchTask, TrialKey
    from pytest_a2a_bench.plugin.check_items import ItemCheck
    from pytest_a2a_bench.plugin.schedule import Schedule
    from pytest_a2a_bench.results.baseline import Baseline
    from pytest_a2a_bench.results.gates.files import Missed
    from pytest_a2a_bench.results.gates.terms import Quarantined
    from pytest_a2a_bench.results.lock import Lock
    from pytest_a2a_bench.tracing import Tracing

WORKER_INPUT = "a2a_bench"
"""Key in xdist's ``workerinput`` and ``workeroutput``."""

_CONFORMANCE = ("a2a/card", "a2a/protocol")


@dataclass(frozen=True, slots=True)
class Selection:
    """Which built-in modules join a run.

    :param ids: node ids given on the command line.
    :param modules: node ids of modules that were selected by name.
    :param candidates: whether every built-in module is offered to ``-k`` and ``-m``.
    :param conformance: whether modules that judge the protocol are among them, so that the card is needed early.
    :param trials: whether trials may be chosen; not by ``-m conformance``.
    """

    ids: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    candidates: bool = False
    conformance: bool = False
    trials: bool = True

    @property
    def only_conformance(self) -> bool:
        """Whether nothing else was asked for by name."""
        named = (*self.ids, *self.modules)
        return self.conformance and not self.candidates and all(n.startswith(_CONFORMANCE) for n in named)

    def __bool__(self) -> bool:
        return bool(self.ids or self.modules or self.candidates)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The agent as the preflight found it.

    :param url: where the agent is.
    :param agent: name and version from the card.
    :param interface: protocol version and transport that will be spoken.
    :param card_url: where the card was found; ``interface_url`` where the interface is that will be spoken to.
    """

    url: str
    agent: str = ""
    interface: str = ""
    card_url: str = ""
    interface_url: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "url", SecretUrl(self.url))

    @property
    def of_card(self) -> dict[str, str]:
        """The agent's ``name`` and ``interface``, for files."""
        return {"name": self.agent, "interface": self.interface}

    @property
    def identity(self) -> str:
        """The agent's name and version from its card, and the interface in use."""
        return f"{self.agent}, {self.interface}"


@dataclass(frozen=True, slots=True)
class ItemTrial:
    """The trial that an item reports."""

    task: BenchTask
    key: TrialKey

    def __repr__(self) -> str:
        # Reporters show it as the item's parameter.
        return str(self.key)


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a run. A worker gets it from its controller, pickled.

    :param settings: the settings as the user gave them.
    :param asked: whether the command line or the table (not only the environment) mentions us.
    :param problems: one line for each wrong option or file; where there are any, the settings must not be used.
    :param results: the directory of result files.
    :param endpoint: None until the preflight found the agent; of several, the first.
    :param agents: all of them by name, where they have names.
    :param endpoint_problem: why the preflight failed, where that is only an error once something uses the endpoint.
    :param subject: the agent's card and the findings about it; None until it was fetched.
    :param quarantine: tasks whose misses fail nothing.
    :param missed: the trials to run again; None for no such choice.
    :param missed_shard: the part of a run that they are the misses of; None for a whole.
    :param end: when the run's time is up (``--a2a-run-timeout``), in seconds since the epoch; None for never.
    :param order: the seed of the trials' order; empty where they keep theirs.
    :param named: whether the command line names the trials to run, so that their rate says nothing about the agent.
    """

    settings: Settings
    run_id: str
    results: Path
    asked: bool = False
    problems: tuple[str, ...] = ()
    selection: Selection = Selection()
    endpoint: Endpoint | None = None
    agents: Mapping[str, Endpoint] = field(default_factory=dict)
    endpoint_problem: str | None = None
    subject: Subject | None = None
    quarantine: tuple[Quarantined, ...] = ()
    missed: tuple[Missed, ...] | None = None
    missed_shard: str | None = None
    named: bool = False
    order: str = ""
    end: float | None = None

    @property
    def target(self) -> Settings:
        """The settings with the endpoint's real URL in place of ``builtin:NAME``."""
        return self.target_of(next(iter(self.settings.agents), None))

    def found(self, name: str | None) -> Endpoint | None:
        """Return an agent as the preflight found it; None if it has not looked for it."""
        return self.endpoint if name is None else self.agents.get(name)

    def target_of(self, name: str | None) -> Settings:
        """Return the settings for one agent, likewise."""
        found, settings = self.found(name), self.settings.of_agent(name)
        return dataclasses.replace(settings, endpoint=found.url) if found is not None else settings

    @property
    def agent_identity(self) -> str:
        """Names and versions of the agents from their cards, and the interfaces in use."""
        if self.agents and self.settings.is_noise_pair:
            return next(iter(self.agents.values())).identity
        if self.agents:
            return "; ".join(f"{name}: {found.identity}" for name, found in self.agents.items())
        return self.endpoint.identity if self.endpoint else ""

    @property
    def agent(self) -> dict[str, str]:
        """The agent's description for files: ``endpoint``, ``name`` and ``interface``; of several agents, all."""
        found = {"endpoint": self.shown_endpoint}
        if self.agents:
            each = self.agents.items()
            interfaces = dict.fromkeys(agent.interface for _, agent in each)
            names = [f"{name}: {agent.agent}" for name, agent in each]
            if self.settings.is_noise_pair:
                names = [agent.agent for _, agent in each][:1]
            return {**found, "name": "; ".join(names), "interface": "; ".join(interfaces)}
        return {**found, **(self.endpoint.of_card if self.endpoint else {})}

    @property
    def shown_endpoint(self) -> str:
        """Where the agents are, as the user said it, without queries."""
        if self.settings.agents:
            return " ".join(f"{name}={without_query(url, url)}" for name, url in self.settings.agents.items())
        return without_query(str(self.settings.endpoint or ""), self.settings.endpoint)


@dataclass(slots=True)
class Collected:
    """The findings of collection in this process.

    :param problems: problems of the tests; reported together when collection is over.
    :param test_problems: problems of single tests by node id; reported only if an item of the test is selected.
    :param notes: remarks about the selection for the user.
    :param names: the names that ``-k`` looks at, of all collected items; gathered only where it is given.
    :param shared: those of the names that all trials of a domain have, by domain; gathered only where ``-k`` is given.
    :param groups: suites and domains of all collected trials, deselected or not.
    :param left_out: how many built-in items gave way to the user's own tests of the same trials.
    :param exchanges: how many exchanges workers compared with and without a gateway.
    :param used: whether an item uses the endpoint.
    :param whole: keys of the selected trials before they were divided among shards.
    :param found_ids: those of the ids on the command line that an item was collected for, deselected or not.
    """

    problems: list[str] = field(default_factory=list)
    test_problems: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    shared: dict[str, set[str]] = field(default_factory=dict)
    groups: set[str] = field(default_factory=set)
    left_out: int = 0
    exchanges: int = 0
    used: bool = False
    whole: tuple[str, ...] = ()
    found_ids: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Services:
    """Services and files of this process, beside pytest; each is None until it is needed.

    :param agent_processes: the built-in agents; only the controller has them, as it has ``baseline``.
    :param schedule: conversations that run ahead of their items.
    :param judge: runs the checks of this process's items.
    :param tracing: makes spans.
    :param baseline: the baseline of the gates.
    :param waivers: known defects.
    :param acts: the tests of ACTS files.
    :param pair: the gateway and the agent behind it.
    :param variables: of ``env-file``; only the controller has them, and its workers inherit them.
    :param lock: the results directory, which is the controller's alone.
    :param certain: returns the indices of the items that this worker runs, or was sent and will keep.
    :param is_terminated: whether SIGTERM came.
    :param is_ending: whether pytest only reports from now on: an exception would not be caught.
    """

    agent_processes: list[BuiltinAgent] = field(default_factory=list)
    schedule: Schedule | None = None
    judge: Judge | None = None
    tracing: Tracing | None = None
    baseline: Baseline | None = None
    waivers: tuple[Waiver, ...] | None = None
    acts: ActsSuite | None = None
    pair: Pair | None = None
    variables: dict[str, str] = field(default_factory=dict)
    lock: Lock | None = None
    certain: Callable[[], Sequence[int]] = tuple
    is_terminated: bool = False
    is_ending: bool = False


@dataclass(slots=True)
class BenchRun:
    """The run in one process.

    :param worker: the worker's part of the run; None on the controller, and without workers.
    """

    plan: Plan
    worker: WorkerPart | None = None
    collected: Collected = field(default_factory=Collected)
    services: Services = field(default_factory=Services)

    @property
    def settings(self) -> Settings:
        """The settings as the user gave them."""
        return self.plan.settings

    @property
    def concurrency(self) -> int:
        """How many conversations this process may have in flight."""
        return self.settings.concurrency if self.worker is None else self.worker.share(self.settings.concurrency)

    @property
    def takes_part(self) -> bool:
        """Whether anything of ours may happen: without options, table and endpoint no trial and no check can run."""
        # A note or a used agent counts as a request, too.
        return bool(self.plan.asked or self.settings.endpoint or self.collected.notes or self.collected.used)

    @property
    def on_github(self) -> bool:
        """Whether to write for GitHub: as the setting says, or where GitHub Actions runs pytest."""
        choice = self.settings.github
        return choice == "on" or (choice == "auto" and os.environ.get("GITHUB_ACTIONS") == "true")

    @property
    def publishes(self) -> bool:
        """Whether the run leaves more than its results: a page, Markdown, a line in a history, GitHub's summary."""
        settings = self.settings
        written = settings.html or settings.markdown or settings.history_file
        return bool(written) or settings.live is not None or self.on_github

    def decide(self, **changes: Any) -> None:
        """Replace members of the plan that are known by now: on the controller, before workers get it."""
        self.plan = dataclasses.replace(self.plan, **changes)


RUN = pytest.StashKey[BenchRun]()
TRIAL = pytest.StashKey[ItemTrial]()
CHECK: pytest.StashKey[ItemCheck] = pytest.StashKey()

CHECK_FIXTURE = "_a2a_check"
"""The fixture of checks of the protocol; known here, so that a run of other items need not load what makes these."""


def of(config: pytest.Config) -> BenchRun:
    """Return the run of a pytest process, and activate the plugin."""
    options.activate(config)
    return config.stash[RUN]


def new_run_id() -> str:
    """Return an id that sorts by time and is not used twice."""
    # Random digits, as CI systems start several runs in one second.
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.urandom(3).hex()}"


_NOTHING_RUNS = ("collectonly", "showfixtures", "show_fixtures_per_test", "setupplan", "cacheshow", "markers")


def nothing_will_run(config: pytest.Config) -> bool:
    """Return whether pytest was only asked to show something."""
    return any(config.getoption(name, False) for name in _NOTHING_RUNS)


def ends_at_collection(session: pytest.Session) -> bool:
    """Return whether pytest runs nothing because a file could not be collected; workers run what there is."""
    broken = session.testsfailed and not session.config.option.continue_on_collection_errors
    return bool(broken) and not hasattr(session.config, "workerinput")


def refuse(session: pytest.Session, run: BenchRun, problems: Sequence[str]) -> None:
    """End a session with a usage error, from whichever process finds it.

    A worker cannot end the session: it hands the problems to the controller and runs nothing.

    :raises pytest.UsageError: unless this is a worker.
    """
    if run.worker is None:
        raise_usage_error(*problems)
    # xdist carries workeroutput to the controller when the worker ends.
    output: dict[str, Any] = session.config.workeroutput  # type: ignore[attr-defined]
    output[WORKER_INPUT] = {"problems": list(problems)}
    session.items[:] = []


def raise_usage_error(*problems: str) -> NoReturn:
    """Raise pytest's usage error, without secrets and control characters: a line for each problem, exit code 4."""
    raise pytest.UsageError(*(sanitise(KNOWN.hide(problem)) for problem in problems))


# -- the part of a worker --

LIFELINE = "a2a_bench_lifeline"
KEEPS = "a2a_bench_keeps"
FILES = "a2a_bench_files"
"""Keys in xdist's ``workerinput``."""


@dataclass(frozen=True, slots=True)
class WorkerPart:
    """One worker's part of a run.

    :param lifeline: a file of the controller's that is there until it stops; None where it is on another machine.
    :param keeps: whether items that were sent to it stay with it, so that their conversations may begin.
    :param index: its number among ``workers``, to divide by what there is for all of them.
    """

    lifeline: str | None = None
    keeps: bool = False
    index: int = 0
    workers: int = 1

    @classmethod
    def of(cls, worker_input: Mapping[str, Any]) -> WorkerPart:
        """Read the plan from xdist's ``workerinput``."""
        return cls(
            lifeline=worker_input.get(LIFELINE),
            keeps=worker_input.get(KEEPS, False),
            index=int(re.sub(r"\D", "", str(worker_input.get("workerid"))) or 0),
            workers=max(1, int(worker_input.get("workercount", 1))),
        )

    @property
    def is_replacement(self) -> bool:
        """Whether it replaces a worker that crashed: its number is above those that the run began with."""
        return self.index >= self.workers

    def share(self, total: int) -> int:
        """Return this worker's share of a number of conversations; one at least, as it would do nothing otherwise."""
        each, rest = divmod(total, self.workers)
        return max(1, each + (self.index % self.workers < rest))
