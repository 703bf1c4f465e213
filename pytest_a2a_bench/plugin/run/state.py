"""What one pytest process knows about its run; kept in ``config.stash`` and nowhere else."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from pytest_a2a_bench.plugin.run import options
from pytest_a2a_bench.plugin.run.options import Resolution
from pytest_a2a_bench.settings import Settings

if TYPE_CHECKING:
    from pytest_a2a_bench.gates.files import Missed
    from pytest_a2a_bench.gates.quarantine import Quarantined
    from pytest_a2a_bench.model import BenchTask, TrialKey
    from pytest_a2a_bench.plugin.trials.schedule import Schedule
    from pytest_a2a_bench.results.baseline import Baseline
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
    """

    ids: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    candidates: bool = False
    conformance: bool = False

    @property
    def only_conformance(self) -> bool:
        """Whether nothing else was asked for by name."""
        named = (*self.ids, *self.modules)
        return self.conformance and not self.candidates and all(n.startswith(_CONFORMANCE) for n in named)

    def __bool__(self) -> bool:
        return bool(self.ids or self.modules or self.candidates)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The agent, found: what the preflight learnt.

    :param url: where the agent is.
    :param agent: name and version from the card.
    :param interface: protocol version and transport that will be spoken.
    """

    url: str
    agent: str = ""
    interface: str = ""


@dataclass(frozen=True, slots=True)
class ItemTrial:
    """The trial that an item reports."""

    task: BenchTask
    key: TrialKey


@dataclass(slots=True)
class BenchRun:
    """The state of a run in one process.

    :param endpoint: set by the preflight; a worker gets it from the controller.
    :param endpoint_problem: why the preflight failed, where that is only an error once something uses the endpoint.
    :param problems: what is wrong with the tests; reported together when collection is over.
    :param test_problems: what is wrong with one test each, by its node id; reported only if an item of it is selected.
    :param notes: what the user should know about the selection.
    :param left_out: how many built-in items gave way to the user's own tests of the same trials.
    :param used: whether an item uses the endpoint.
    :param subject: the agent's card and what is wrong with it, as JSON; None until it was fetched.
    :param judge: runs the checks of this process's items.
    :param waivers: known defects; None until the file was read.
    :param whole: keys of the selected trials before they were divided among shards.
    :param durations: seconds of earlier trials by key, to divide them by.
    :param baseline: what gates compare with; only the controller has it.
    :param quarantine: tasks whose misses fail nothing.
    :param missed: the trials to run again; None for no such choice.
    :param named: whether somebody named the trials to run, so that their rate says nothing about the agent.
    :param worker: xdist's ``workerinput`` in a worker.
    """

    resolution: Resolution
    selection: Selection
    run_id: str
    results: Path
    endpoint: Endpoint | None = None
    endpoint_problem: str | None = None
    problems: list[str] = field(default_factory=list)
    test_problems: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    left_out: int = 0
    used: bool = False
    worker: Mapping[str, Any] | None = None
    schedule: Schedule | None = None
    agent_process: Any = None
    subject: dict[str, Any] | None = None
    judge: Any = None
    tracing: Tracing | None = None
    waivers: tuple[Any, ...] | None = None
    whole: tuple[str, ...] = ()
    durations: dict[str, float] = field(default_factory=dict)
    baseline: Baseline | None = None
    quarantine: tuple[Quarantined, ...] = ()
    missed: tuple[Missed, ...] | None = None
    named: bool = False

    @property
    def settings(self) -> Settings:
        """The settings as the user gave them."""
        return self.resolution.settings

    @property
    def takes_part(self) -> bool:
        """Whether anything of ours may happen: without options, ini and endpoint no trial and no check can run."""
        return bool(self.resolution.asked or self.settings.endpoint or self.notes or self.used)

    @property
    def target(self) -> Settings:
        """The settings with the endpoint's real URL in place of ``builtin:NAME``."""
        if self.endpoint is None:
            return self.settings
        return dataclasses.replace(self.settings, endpoint=self.endpoint.url)

    @property
    def agent_identity(self) -> str:
        """What the agent's card says it is, and how it is spoken to."""
        return f"{self.endpoint.agent}, {self.endpoint.interface}" if self.endpoint else ""

    def for_worker(self) -> str:
        """Return what a worker process needs to know, as text."""
        return json.dumps(
            {
                "settings": self.settings.to_json(),
                "asked": self.resolution.asked,
                "problems": self.resolution.problems,
                "selection": dataclasses.asdict(self.selection),
                "run_id": self.run_id,
                "results": str(self.results),
                "endpoint": dataclasses.asdict(self.endpoint) if self.endpoint else None,
                "endpoint_problem": self.endpoint_problem,
                "subject": self.subject,
                "durations": self.durations,
                "quarantine": [entry.to_json() for entry in self.quarantine],
                "missed": [(m.key, m.nodeid) for m in self.missed] if self.missed is not None else None,
                "named": self.named,
            }
        )

    @classmethod
    def from_worker_input(cls, worker_input: Mapping[str, Any]) -> BenchRun:
        """Read what :meth:`for_worker` wrote."""
        from pytest_a2a_bench.gates.files import Missed
        from pytest_a2a_bench.gates.quarantine import Quarantined

        data = json.loads(worker_input[WORKER_INPUT])
        selection = data["selection"]
        return cls(
            resolution=Resolution(Settings.from_json(data["settings"]), tuple(data["problems"]), data["asked"]),
            selection=Selection(
                ids=tuple(selection["ids"]),
                modules=tuple(selection["modules"]),
                candidates=selection["candidates"],
                conformance=selection["conformance"],
            ),
            subject=data["subject"],
            durations=data["durations"],
            run_id=data["run_id"],
            results=Path(data["results"]),
            endpoint=Endpoint(**data["endpoint"]) if data["endpoint"] else None,
            endpoint_problem=data["endpoint_problem"],
            quarantine=tuple(Quarantined.from_json(entry) for entry in data["quarantine"]),
            missed=tuple(Missed(*m) for m in data["missed"]) if data["missed"] is not None else None,
            named=data["named"],
            worker=worker_input,
        )


RUN = pytest.StashKey[BenchRun]()
TRIAL = pytest.StashKey[ItemTrial]()


def of(config: pytest.Config) -> BenchRun:
    """Return the run of a pytest process."""
    return config.stash[RUN]


def new_run_id() -> str:
    """Return an id that sorts by time and is not used twice."""
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.urandom(3).hex()}"


def start(config: pytest.Config) -> BenchRun:
    """Resolve the options of a controller (or of a run without xdist).

    :raises pytest.UsageError: if the command line or ini has wrong values.
    """
    resolution = options.resolve(config, os.environ)
    settings = resolution.settings
    run = BenchRun(resolution, Selection(), new_run_id(), options.results_directory(settings, config))
    if resolution.asked or settings.endpoint:
        from pytest_a2a_bench.gates import files as gate_files
        from pytest_a2a_bench.plugin.collect import shards

        files = gate_files.read(settings, config.invocation_params.dir, run.results)
        run.baseline, run.quarantine, run.missed = files.baseline, files.quarantine, files.missed
        run.durations, wrong = shards.read_durations(settings)
        problems = (*resolution.problems, *files.problems, *wrong)
        run.resolution = dataclasses.replace(resolution, problems=problems)
    if resolution.asked and run.resolution.problems:
        raise pytest.UsageError(options.usage_text(run.resolution.problems))
    return run


def refuse(session: pytest.Session, run: BenchRun, text: str) -> None:
    """End a session with a usage error, from whichever process finds it.

    A worker cannot end the session: it hands the text to the controller and runs nothing.

    :raises pytest.UsageError: unless this is a worker.
    """
    if run.worker is None:
        raise_usage_error(text)
    output: dict[str, Any] = session.config.workeroutput  # type: ignore[attr-defined]
    output[WORKER_INPUT] = {"problem": text}
    session.items[:] = []


def raise_usage_error(text: str) -> NoReturn:
    """Raise pytest's usage error: one line, exit code 4."""
    raise pytest.UsageError(text)
