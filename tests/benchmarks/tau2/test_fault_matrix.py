"""What comes of each fault is what docs/explanations/reliability.md says, and never a wrong reward."""

import functools
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest
from chaos_oracle import GRPC, harried
from examples import rotating
from trials import run_against

from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.a2a.requests import RetryPolicy
from pytest_a2a_bench.benchmarks.tau2 import index
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.results.store import Store
from pytest_a2a_bench.trials import runner

PAGE = Path(__file__).parents[3] / "docs" / "explanations" / "reliability.md"
COLUMNS = [(t, p) for t in ("jsonrpc", "rest", "grpc") for p in ("1.0", "0.3")]
HEADS = {"jsonrpc": "JSON-RPC", "rest": "HTTP+JSON", "grpc": "gRPC"}
AGENTS = {"oracle": 2, "readonly": 1}
"""Agents, and how often each holds every task: one that does everything right, and one whose rewards differ."""

REDELIVER = 8
"""More than the default, so that nearly every trial comes to its end although most meet a fault each time."""

_RETRIES = ClientConfig("http://agent.test").max_retries

PUT_UP, REPEATED, AGAIN, ASKED = "put up with", "repeated", "run again", "task asked for"
NONE = "-"

# A connection of HTTP/1.1 carries one conversation at a time; gRPC's carries all, and a fault of it hits all of them.
_SHARED = ("after-delivery", "half-close")
_STREAM_ONLY = ("duplicate", "reorder")
BLOCKING = (
    *("reset", "after-delivery", "half-close", "hang-before", "hang-after"),
    *("429", "500-late", "503", "503-late", "504-late"),
    *("truncate", "wrong-id", "wrong-context", "wrong-task"),
)
STREAMING = (
    *("reset", "after-delivery", "half-close", "hang-after", "truncate", *_STREAM_ONLY),
    *("wrong-id", "wrong-context", "wrong-task"),
)
MODES: Mapping[str, tuple[str, ...]] = {"blocking": BLOCKING, "streaming": STREAMING}


@dataclass(frozen=True)
class Cell:
    """One fault on one wire.

    :param mode: ``blocking`` or ``streaming``.
    """

    mode: str
    fault: str
    transport: str
    protocol: str

    def __str__(self) -> str:
        return f"{self.mode}-{self.fault}-{self.transport}-{self.protocol}"

    @property
    def exists(self) -> bool:
        """Whether there is something that the fault can be done to."""
        if self.transport == "grpc":
            return self.fault in GRPC
        return self.fault != "wrong-id" or self.transport == "jsonrpc"

    @property
    def is_shared(self) -> bool:
        """Whether one fault hits several conversations."""
        return self.transport == "grpc" and self.fault in _SHARED

    @property
    def is_silent(self) -> bool:
        """Whether it ends by a limit of time."""
        return self.fault.startswith("hang")

    @property
    def rates(self) -> dict[str, float]:
        """The fault's probability, so high that most trials meet it."""
        # Only the second answer of these short conversations can be of another one.
        return {self.fault: 0.9 if self.fault == "wrong-context" else 0.1 if self.is_shared else 0.4}

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of requests that may meet it."""
        # After a stream that stalls or is cut the task is polled: the cell is about that, so polls meet no fault.
        polled = self.fault == "hang-after" or (self.mode == "streaming" and self.fault == "truncate")
        return ("send",) if polled else ("send", "task")

    def agent(self, name: str) -> str:
        """The agent's spec."""
        reply = "task" if self.mode == "streaming" or self.fault == "wrong-task" else "message"
        return f"{name}?dedupe=off&reply={reply}&transport={self.transport}&protocol={self.protocol}"

    @property
    def settings(self) -> Settings:
        """How its trials are held."""
        return Settings(
            tag_trials=True,
            concurrency=8,
            transport=self.transport,
            protocol=self.protocol,
            streaming="on" if self.mode == "streaming" else "off",
            timeout=2.0 if self.is_silent and self.mode == "blocking" else 60.0,
            # A busy machine makes any stream stall for a second, and then its task is asked for: by the id that came,
            # which may be what is wrong.
            stall_timeout=1.0 if self.is_silent else 60.0,
            trial_timeout=120.0,
            redeliver=REDELIVER,
        )


@dataclass(frozen=True)
class Tried:
    """The outcomes of a cell.

    :param outcomes: of its trials, counted.
    :param harm: what must never be: wrong rewards, lost results.
    :param met: how many trials, at least, met a fault.
    """

    outcomes: Counter[str]
    harm: tuple[str, ...]
    met: int

    @property
    def outcome(self) -> str:
        """The commonest outcome, which the table shows."""
        others = Counter({name: count for name, count in self.outcomes.items() if name != PUT_UP})
        return others.most_common(1)[0][0] if others else PUT_UP

    def others(self, cell: Cell) -> list[str]:
        """What else came of trials and is not what the table says."""
        # Of those that share a broken connection some were just being sent, and others just answered.
        also = {REPEATED, AGAIN, ASKED} if cell.is_shared else set()
        return sorted(set(self.outcomes) - {PUT_UP, self.outcome} - also)


def cells() -> Iterator[Cell]:
    """Yield the cells in which something can be done."""
    for mode, faults in MODES.items():
        for fault in faults:
            yield from (c for t, p in COLUMNS if (c := Cell(mode, fault, t, p)).exists)


def keys(times: int) -> list[TrialKey]:
    """Return the trials of an agent: every task of tau2's smallest domain."""
    return [TrialKey("tau2", "mock", task.task_id, n) for task in index.load_tasks("mock") for n in range(times)]


@functools.cache
def reference(name: str) -> dict[str, tuple[str, float | None]]:
    """Return status and reward of every task without faults, by task."""
    with tempfile.TemporaryDirectory() as folder, harried({}, f"{name}?dedupe=off") as agent:
        settings = Settings(tag_trials=True, concurrency=8)
        return {r.key.task_id: (r.status, r.reward) for r in run_against(agent.url, settings, keys(1), Path(folder))}


def try_cell(cell: Cell) -> Tried:
    """Hold the trials of a cell."""
    outcomes: Counter[str] = Counter()
    harm: list[str] = []
    met = 0
    for name, times in AGENTS.items():
        usual = reference(name)
        with tempfile.TemporaryDirectory() as folder, harried(cell.rates, cell.agent(name), kinds=cell.kinds) as agent:
            # Only how long is waited is another than a user's: milliseconds instead of up to half a minute.
            with mock.patch.object(runner, "_PAUSE", RetryPolicy(base=0.01, maximum=0.1)):
                results = run_against(agent.url, cell.settings, keys(times), Path(folder))
            harm += [f"{name} {r.key}: {wrong}" for r in results if (wrong := _wrong(r, usual, Path(folder)))]
            harm += [f"no result of {name} {key}" for key in set(keys(times)) - {r.key for r in results}]
        found = [_outcome(r) for r in results]
        injected = agent.injected.total()
        spoilt = sum(r.status == "infrastructure_error" for r in results)
        # Where silence is the fault, a slow machine gives the same outcome as one.
        is_counted = not (cell.is_shared or cell.is_silent)
        if spoilt and (not injected or (is_counted and spoilt > injected)):
            harm.append(f"{name}: {injected} faults spoilt {spoilt} trials")
        met += min(injected, len(found)) if is_counted else sum(o != PUT_UP for o in found)
        outcomes.update(found)
    return Tried(outcomes, tuple(harm), met)


def _wrong(result: TrialResult, usual: Mapping[str, tuple[str, float | None]], folder: Path) -> str:
    """Return what must not be of a result; empty where all is well."""
    if Store(folder).read(result.key) != result:
        return "its file says something else"
    if result.status == "infrastructure_error":
        return ""
    expected = usual[result.key.task_id]
    return "" if (result.status, result.reward) == expected else f"{result.status} {result.reward}, not {expected}"


def _outcome(result: TrialResult) -> str:
    """Return what came of a trial; that it was tried as often as allowed, and in vain, makes no difference."""
    if result.status == "infrastructure_error":
        unreachable = result.error_type in ("TransportError", "EndpointUnreachableError")
        if unreachable and result.metrics and result.metrics[-1].attempt > _RETRIES:
            return REPEATED
        return AGAIN if result.error_type == "DeliveryUncertain" else f"error {result.error_type}"
    if result.held_again:
        return AGAIN
    if any("asked for instead" in finding.message for finding in result.findings):
        return ASKED
    return REPEATED if any(m.attempt > 1 for m in result.metrics) else PUT_UP


def documented() -> dict[Cell, str]:
    """Read the tables: what the page says of each cell."""
    text = PAGE.read_text(encoding="utf-8")
    said = {}
    for mode in MODES:
        table = text.partition(f"<!-- matrix: {mode} -->\n")[2].partition("<!-- end of matrix -->")[0]
        for line in table.strip().splitlines()[2:]:
            fault, *outcomes = (field.strip() for field in line.strip("|").split("|"))
            for transport, outcome in zip(HEADS, outcomes, strict=True):
                both = outcome.split(" / ")
                for protocol, one in zip(("1.0", "0.3"), (both[0], both[-1]), strict=True):
                    if one != NONE:
                        said[Cell(mode, fault.strip("`"), transport, protocol)] = one
    return said


def explain(cell: Cell, tried: Tried, said: str) -> str:
    """Return how what came of a cell differs from what the page says; empty where it does not."""
    trials = tried.outcomes.total()
    problems = list(tried.harm)
    if trials < 25 or tried.met * 2 < trials:
        problems.append(f"only {tried.met} of {trials} trials met a fault")
    if tried.outcome.removeprefix("error ") != said or tried.others(cell):
        problems.append(f"seen was {tried.outcome!r} ({dict(tried.outcomes)}), and the page says {said!r}")
    return f"{cell}: {'; '.join(problems)}" if problems else ""


# asyncio forgets a connection that it accepted at the moment at which the proxy ends.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.mark.slow
@pytest.mark.parametrize("cell", rotating(list(cells()), 5), ids=str)
def test_a_cell_is_as_documented(cell: Cell) -> None:
    problem = explain(cell, try_cell(cell), documented()[cell])
    assert not problem, problem


def test_the_page_has_every_cell() -> None:
    assert set(documented()) == set(cells())
