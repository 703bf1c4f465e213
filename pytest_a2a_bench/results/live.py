"""Conversations in flight (``--a2a-live``): a file for each in ``DIR/live``, which is removed when its trial has ended.

The process that runs the conversation writes a line for each message, and a process that shows the run reads it. Lines
are JSON: the trial, then the policy and the tools that the agent was given, then the messages as in transcripts.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_a2a_bench.model import AgentSaid, Briefing, Event, ToolReturned, TrialKey, Turn, UserSaid
from pytest_a2a_bench.redact import KNOWN
from pytest_a2a_bench.results.store import adapter_of

NAME = "live"


class Growing:
    """The file of one conversation, for the thread that runs it. A disk that refuses it ends no conversation.

    :param directory: the run's results directory.
    """

    def __init__(self, directory: Path, key: TrialKey, run_id: str) -> None:
        self._path = directory / NAME / f"{key.file_stem}.{secrets.token_hex(6)}.jsonl"
        self._began = time.time()
        self._is_briefed = False
        self._handle = -1
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # A conversation may hold what a user said.
            self._handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        self._write({"key": str(key), "run_id": run_id, "began": self._began})

    def hear(self, briefing: Briefing, events: Sequence[Event], party: str | None = None) -> None:
        """Write messages.

        :param party: the agent that spoke, where it is not the one under test.
        """
        if not self._is_briefed:
            self._is_briefed = True
            self._write({"policy": briefing.policy, "tools": [[t.name, t.description] for t in briefing.tools]})
        for event in events:
            at = round(time.time() - self._began, 2)
            self._write({"at": at, "turn": _turn(event, party).to_json()})

    def end(self) -> None:
        """Remove the file: the result is stored, or the conversation begins anew."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _write(self, line: dict[str, Any]) -> None:
        if self._handle < 0:
            return
        text = KNOWN.hide(json.dumps(line, ensure_ascii=False, separators=(",", ":"), default=str)) + "\n"
        with contextlib.suppress(OSError):
            os.write(self._handle, text.encode("utf-8", errors="backslashreplace"))


def clear(directory: Path) -> None:
    """Remove the files of processes that were killed."""
    shutil.rmtree(directory / NAME, ignore_errors=True)


@dataclass(slots=True)
class InFlight:
    """A conversation in flight, as far as its file has been read.

    :ivar id: unique, also among conversations of the same trial.
    :ivar began: seconds since 1970.
    :ivar briefing: ``policy`` and ``tools`` (names and descriptions), once the agent has them.
    :ivar turns: each message, and when it came, in seconds since the conversation began.
    """

    path: Path
    id: str
    key: str = ""
    run_id: str = ""
    began: float = 0.0
    briefing: dict[str, Any] = field(default_factory=dict)
    turns: list[tuple[float, Turn]] = field(default_factory=list)
    _offset: int = 0

    def read(self) -> None:
        """Read the lines that were written since the last time; raises OSError if the file is gone."""
        with self.path.open("rb") as stream:
            stream.seek(self._offset)
            # A line that is half there is read when it is whole.
            whole, end, _ = stream.read().rpartition(b"\n")
        self._offset += len(whole) + len(end)
        for line in whole.splitlines():
            self._take(json.loads(line))

    def _take(self, line: dict[str, Any]) -> None:
        if "turn" in line:
            self.turns.append((float(line["at"]), adapter_of(Turn).validate_python(line["turn"])))
        elif "policy" in line:
            self.briefing = line
        else:
            self.key, self.run_id = str(line.get("key", "")), str(line.get("run_id", ""))
            self.began = float(line.get("began", 0.0))


class Watch:
    """Reads the conversations in flight of a results directory, each line once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / NAME
        self._known: dict[str, InFlight] = {}

    def look(self) -> list[InFlight]:
        """Return the conversations that are under way, the oldest first; damaged files are left out."""
        there = {path.name: path for path in self._directory.glob("*.jsonl")}
        self._known = {name: conversation for name, conversation in self._known.items() if name in there}
        for name, path in there.items():
            conversation = self._known.setdefault(name, InFlight(path, name.rsplit(".", 2)[-2]))
            try:
                conversation.read()
            except (OSError, ValueError, TypeError, AttributeError, KeyError):
                del self._known[name]
        return sorted((h for h in self._known.values() if h.key), key=lambda conversation: conversation.began)


def _turn(event: Event, party: str | None) -> Turn:
    if isinstance(event, UserSaid):
        return Turn("user", event.text)
    if isinstance(event, ToolReturned):
        return Turn("tool", event.content, call_id=event.call_id, tool=event.name, error=event.error, requestor="agent")
    assert isinstance(event, AgentSaid)
    return Turn("agent", event.text, event.calls, party=party)
