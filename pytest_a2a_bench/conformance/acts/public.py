"""The public tests of ACTS: which of our requirements each is about, and where one is at odds with A2A.

``conformance/data/acts.jsonl`` has a row for each test of A2A pull request 1882 that asks an agent something.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from pytest_a2a_bench.conformance.acts.document import Step
from pytest_a2a_bench.conformance.wire.reply import WireReply

_INVALID = "InvalidParamsError"
_NO_ID = "the message that it sends has no messageId, which A2A requires (1.0.1 §4.1.4)"


@dataclass(frozen=True, slots=True)
class PublicTest:
    """One public test.

    :param ours: ids of the requirements that it is about; empty where there is no check.
    :param where: pattern of the steps, as JSON, that contradict the specification; empty where none does.
    :param why: what the specification says.
    :param binding: the only binding on which it does; empty for all.
    """

    id: str
    ours: tuple[str, ...]
    where: str = ""
    why: str = ""
    binding: str = ""


@cache
def load_public() -> Mapping[str, PublicTest]:
    """Return the public tests by id, in their own order."""
    text = (files("pytest_a2a_bench.conformance") / "data" / "acts.jsonl").read_text(encoding="utf-8")
    rows = map(json.loads, text.splitlines())
    return {row["id"]: PublicTest(row["id"], tuple(row["ours"]), **row.get("doubt", {})) for row in rows}


def doubt(id: str, step: Step, reply: WireReply) -> str:
    """Return why a step that failed may be the test's mistake; empty where it is the agent's.

    By what the step says, and not by the test's id alone: a later draft may have put it right.
    """
    error = reply.error
    if step.raw is not None and _lacks_message_id(step.raw.body) and error is not None and error.may_be(_INVALID):
        return _NO_ID
    known = load_public().get(id)
    if known is None or not known.where or known.binding not in ("", reply.exchange.binding):
        return ""
    return known.why if re.search(known.where, json.dumps(dataclasses.asdict(step))) else ""


def _lacks_message_id(body: Any) -> bool:
    params = body.get("params", body) if isinstance(body, Mapping) else None
    message = params.get("message") if isinstance(params, Mapping) else None
    return isinstance(message, Mapping) and "messageId" not in message
