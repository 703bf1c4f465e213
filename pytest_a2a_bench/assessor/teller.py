"""What one caller is told of their assessment, as events of its A2A task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from a2a.server.tasks import TaskUpdater
from a2a.types import Part
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Value

from pytest_a2a_bench.assessor import result
from pytest_a2a_bench.redact import sanitise
from pytest_a2a_bench.secret import KNOWN

_LONGEST = 4000


class Teller:
    """Tells one caller, without secrets and control characters."""

    def __init__(self, updater: TaskUpdater) -> None:
        self._updater = updater

    async def tell(self, text: str) -> None:
        """Say how far it is."""
        await self._updater.start_work(self._message(text))

    async def reject(self, problems: tuple[str, ...]) -> None:
        """Refuse a request, with everything that is wrong with it."""
        text = f" {problems[0]}" if len(problems) == 1 else "".join(f"\n- {problem}" for problem in problems)
        await self._updater.reject(self._message(f"This request cannot be carried out:{text}"))

    async def fail(self, text: str) -> None:
        """Say that there is no result, and why."""
        await self._updater.failed(self._message(text))

    async def complete(self, text: str, told: Mapping[str, Any]) -> None:
        """Hand the result over."""
        parts = [
            Part(text=_clean(text), media_type="text/plain"),
            Part(data=ParseDict(KNOWN.hide_in(dict(told)), Value()), media_type="application/json"),
        ]
        await self._updater.add_artifact(parts, name=result.NAME, last_chunk=True)
        await self._updater.complete()

    def _message(self, text: str) -> Any:
        return self._updater.new_agent_message([Part(text=_clean(text), media_type="text/plain")])


def _clean(text: str) -> str:
    shown = sanitise(KNOWN.hide(text))
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]} ..."
