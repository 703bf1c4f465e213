"""A run's directory, looked at again and again: what finished, what is being held now, and why trials did not pass.

Each file is read once, until it changes: the directory of a long run has many thousands.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from pytest_a2a_bench.configuration.rates import split_tier
from pytest_a2a_bench.errors import A2ABenchError
from pytest_a2a_bench.gates.terms import groups_of_result
from pytest_a2a_bench.model import ToolCall, TrialKey, TrialResult, Turn
from pytest_a2a_bench.redact import one_line, sanitise
from pytest_a2a_bench.reports.diagnosis import cause_of, diagnosis_of
from pytest_a2a_bench.reports.gathering import gather
from pytest_a2a_bench.reports.html import render
from pytest_a2a_bench.reports.html.records import TEXT, turn_record, why
from pytest_a2a_bench.reports.live import page
from pytest_a2a_bench.results import history, live, lock, manifest, mirror
from pytest_a2a_bench.results.progress import Progress, duration
from pytest_a2a_bench.results.stats import count
from pytest_a2a_bench.results.store import Store, StoreError

_LAST = 8
_REASONS = 6
_NOW = 200
_NONE_YET = "No trial has ended yet. The report is here as soon as one has."

_Mark: TypeAlias = tuple[int, int, int]


@dataclass
class Watched:
    """What a results directory tells of its run.

    :param baseline: an earlier run or a baseline's file, to compare with.
    :param past: a history of runs (``--a2a-history-file``), to show over time.
    :param run_id: the only run that is meant; else whatever the directory has.
    """

    directory: Path
    baseline: Path | None = None
    run_id: str = ""
    past: Path | None = None
    _done: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _damaged: dict[str, str] = field(default_factory=dict)
    _seen: dict[str, _Mark] = field(default_factory=dict)
    _manifest: tuple[_Mark, manifest.Manifest] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._watch = live.Watch(self.directory)
        self._talks: dict[str, live.Held] = {}
        self.is_over = False
        """Whether the run ended, where the process is its own and still has the directory."""

    def look(self) -> dict[str, Any]:
        """Return how far the run is, as JSON."""
        with self._lock:
            return self._look()

    def _look(self) -> dict[str, Any]:
        # Asked first: what ends between the two is seen at the next look.
        running = not self.is_over and lock.is_in_use(self.directory)
        nothing: dict[str, Any] = {"name": "", "done": 0, "total": 0, "last": [], "now": [], "why": [], "floors": []}
        try:
            asked = self._asked()
            if self.run_id and asked.run_id != self.run_id:
                return {**nothing, "line": "the run begins", "running": running}
            self._read(asked)
        except (A2ABenchError, OSError) as error:
            begins = bool(self.run_id) and running
            line = "the run begins" if begins else one_line(str(error))
            return {**nothing, "line": line, "running": running}
        done = [self._done[key] for key in asked.keys if key in self._done]
        reasons = Counter(values["reason"] for values in done if values["reason"])
        # In the order in which they were read.
        last = [str(values["last"]) for key, values in self._done.items() if key][: -_LAST - 1 : -1]
        held = list(self._held(asked)) if running else []
        self._talks = {each.id: each for each in held}
        in_flight = len(held) or None
        # Its manifest is written when a run begins.
        age = max(0.0, time.time() - self._manifest[0][0] / 1e9) if self._manifest else 0.0
        parallel = max(1, len(held))
        line = Progress(tuple(done), len(asked.keys), age, parallel, in_flight).line.removeprefix("a2a: ")
        if not running:
            # When it began is known, and when it ended is not.
            line = line.partition(", about ")[0].removesuffix(f", {duration(age)}")
        if self._damaged:
            line += f"; {count(len(self._damaged), 'trial file')} cannot be read"
        if not running:
            line += "; the run is over"
        why_missed = [f"{number}x {text}" for text, number in reasons.most_common(_REASONS)]
        return {
            "name": one_line(asked.agent or asked.endpoint, 80),
            "line": line,
            "done": len(done),
            "total": len(asked.keys),
            "last": last,
            "running": running,
            "now": [_shown(each) for each in held[:_NOW]],
            "floors": list(self._floors(asked)),
            "why": [*list(self._damaged.values())[:_REASONS], *why_missed],
        }

    def talk(self, id: str, begin: int) -> dict[str, Any] | None:
        """Return a conversation's messages from one on, as JSON; None where it is not under way any more.

        :param id: as :meth:`look` names it.
        """
        with self._lock:
            held = self._talks.get(id)
            if held is None:
                return None
            tools = [
                f"{one_line(str(name), 120)}: {one_line(str(text), 300)}"
                for name, text in held.briefing.get("tools", [])
            ]
            told = {"policy": _bounded(held.briefing.get("policy", "")), "tools": tools}
            return {"key": one_line(held.key, 200), "turns": [_message(m) for m in held.turns[begin:]], **told}

    def _asked(self) -> manifest.Manifest:
        """Return the manifest; that of a large run takes long to read."""
        try:
            mark = _mark(self.directory / manifest.NAME)
        except OSError:
            self._manifest = None
            return manifest.load(self.directory)
        if self._manifest is None or self._manifest[0] != mark:
            self._manifest = mark, manifest.load(self.directory)
        return self._manifest[1]

    def _read(self, asked: manifest.Manifest) -> None:
        """Read the trials that have finished since the last look; of another run, all."""
        if not self._done or asked.run_id != self._done.get("", {}).get("run_id"):
            self._seen.clear()
            self._damaged.clear()
            self._done = {"": {"run_id": asked.run_id}}
        store = Store(self.directory)
        for key in self._fresh(asked, store):
            self._forget(key)
            try:
                result = store.read(TrialKey.parse(key))
            except StoreError as error:
                # The others are shown all the same, and this one when it is written again.
                self._damaged[key] = one_line(str(error))
                continue
            if result is None or result.run_id not in asked.runs:
                continue
            self._done[key] = {
                "status": result.status,
                "success": result.success,
                "cost_usd": result.cost,
                **({"estimated_cost_usd": result.estimated_usage.cost_usd} if result.spent.estimated else {}),
                "duration_s": result.duration,
                "reused_from": result.reused_from,
                "groups": groups_of_result(result),
                "last": f"{one_line(key, 80)}: {_outcome(result)}",
                "reason": _reason(result),
            }

    def _forget(self, key: str) -> None:
        """Take back what was told of a trial: it is held again (``--reruns``), or was."""
        self._done.pop(key, None)
        self._damaged.pop(key, None)
        self._seen.pop(key, None)

    def _fresh(self, asked: manifest.Manifest, store: Store) -> Iterator[str]:
        """Yield the trials whose files have come or changed since the last look."""
        # Whoever is told which run it is shows its own process's, whose files are here.
        elsewhere = not self.run_id and mirror.place_of(self.directory) is not None
        for key in asked.keys:
            try:
                mark = _mark(store.path(TrialKey.parse(key)))
            except OSError:
                if not elsewhere:
                    self._forget(key)
                elif key not in self._done:
                    yield key
                continue
            if self._seen.get(key) != mark:
                yield key
                self._seen[key] = mark

    def _floors(self, asked: manifest.Manifest) -> Iterator[str]:
        """Say how far the trials that have finished keep the run's floors; gates judge in the end, and more exactly."""
        done = [values for key, values in self._done.items() if key]
        for name, rate in dict(asked.settings.get("min_pass") or {}).items():
            group, _ = split_tier(name)
            found = [values for values in done if not group or group in values["groups"]]
            if found:
                share = sum(bool(values["success"]) for values in found) / len(found)
                words = "reached so far" if share >= float(rate) else "not reached so far"
                yield f"{one_line(group, 80) or 'all trials'}: {share:.0%} of {float(rate):.0%}, {words}"

    def _held(self, asked: manifest.Manifest) -> Iterator[live.Held]:
        for held in self._watch.look():
            if held.run_id in asked.runs and held.key not in self._done:
                yield held

    def report(self) -> str:
        """Return the report's page as it is now."""
        try:
            past = history.read(self.past) if self.past is not None else ()
            return render(gather(self.directory, self.baseline, None, past))
        except (A2ABenchError, OSError) as error:
            told = self.look()
            waits = told["running"] and not told["done"]
            return page.waiting(_NONE_YET if waits else str(error))

    def shell(self) -> tuple[str, str]:
        """Return the page around it, and its policy."""
        return page.shell(self.look())


def _mark(path: Path) -> _Mark:
    """Return what tells a file from what it was before; its size, too, for one that grows within a tick of the clock.

    :raises OSError: if it is not there.
    """
    found = path.stat()
    return found.st_mtime_ns, found.st_ino, found.st_size


def _outcome(result: TrialResult) -> str:
    return "passed" if result.success else one_line(why(result), 80) or result.status


def _reason(result: TrialResult) -> str:
    """Say why a trial missed, in the words that it shares with others; nothing where it did not."""
    told = diagnosis_of(result)
    if told is None:
        return ""
    cause = cause_of(result.key.suite, told.kind)
    return one_line(f"{cause.blame}: {cause.about(told.subject)}", 160)


def _shown(held: live.Held) -> dict[str, Any]:
    last = held.turns[-1] if held.turns else {}
    seconds = max(0.0, time.time() - held.began)
    return {
        "id": held.id,
        "key": one_line(held.key, 200),
        "seconds": round(seconds, 1),
        "messages": len(held.turns),
        "waits": _waits(last.get("turn", {})),
        "since": round(max(0.0, seconds - float(last.get("at", 0.0))), 1),
    }


def _waits(turn: Mapping[str, Any]) -> str:
    """Say for whom a conversation waits, of its last message."""
    if not turn:
        return "begins"
    if turn.get("role") != "agent":
        return "agent"
    return "tools" if turn.get("calls") else "user"


def _message(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message as the page draws those of finished trials."""
    turn = line["turn"]
    calls = tuple(ToolCall(str(c.get("name", "")), c.get("arguments") or {}) for c in turn.get("calls", ()))
    known = {name: turn.get(name) for name in ("text", "tool", "requestor", "party")}
    return turn_record(Turn(turn.get("role", "agent"), calls=calls, error=bool(turn.get("error")), **known))


def _bounded(text: str) -> str:
    plain = sanitise(text)
    return plain if len(plain) <= TEXT else f"{plain[:TEXT]}\n…"
