"""What an agent that reports no usage is reckoned to have used (``agent-model``).

Tokens are those of the messages, as the model's tokenizer counts them: what the agent's model read and wrote beside
them (its own prompt, earlier turns again, thoughts) nobody outside knows, so an estimate is the least that it can be.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pytest_a2a_bench.dialects.serialization import tools_to_text
from pytest_a2a_bench.language_models import price_list
from pytest_a2a_bench.model import Part, TrialResult, Usage, sum_usage

if TYPE_CHECKING:
    from pytest_a2a_bench.a2a.session import AgentSession
    from pytest_a2a_bench.benchmarks.native import NativeTurns


def fill_in(session: AgentSession, model: str | None, native: NativeTurns | None = None) -> None:
    """Give the requests of a conversation the tokens of their messages, unless the agent has reported any.

    :param model: LiteLLM's name of the agent's model; nothing is estimated without.
    :param native: the calls that the agent made by itself: they and their results are counted with the message that
        they were made for, and the tools' descriptions, which it then has read, with the first of these.
    """
    if not model or session.usage.tokens is not None:
        return
    prices, sent, turn = price_list(model), "", 0
    for entry in session.history:
        if entry.direction == "sent":
            sent, turn = _text(entry.parts), turn + 1
        elif entry.requests:
            last = entry.requests - 1
            read, said = _natively(native, turn)
            session.metrics[last] = dataclasses.replace(
                session.metrics[last],
                input_tokens=prices.tokens("\n".join([sent, *read])),
                output_tokens=prices.tokens("\n".join([*said, _text(entry.parts)])),
                estimated=True,
            )


def _natively(native: NativeTurns | None, turn: int) -> tuple[list[str], list[str]]:
    """Return what an agent read and said in its own calls within a turn."""
    exchanges = native.exchanges if native is not None else []
    made = [exchange for exchange in exchanges if exchange.turn == turn]
    said = [json.dumps({"name": e.call.name, "arguments": dict(e.call.arguments)}, default=str) for e in made]
    read = [exchange.result for exchange in made]
    if native is not None and made and made[0] is exchanges[0]:
        read.insert(0, tools_to_text(native.desk.tools))
    return read, said


def estimated(result: TrialResult, model: str | None) -> TrialResult:
    """Return a trial's result with what is estimated of it: only that which the agent did not report."""
    if not model:
        return result
    prices, reported = price_list(model), result.agent_usage
    tokens = reported
    usage = Usage()
    if reported.tokens is None:
        tokens = usage = sum_usage(m.usage for m in result.metrics if m.estimated)
    if reported.cost_usd is None:
        usage = dataclasses.replace(usage, cost_usd=prices.cost(tokens))
    told = {**result.provenance, "agent_model": prices.words}
    return dataclasses.replace(result, estimated_usage=usage, provenance=told)


def _text(parts: Iterable[Part]) -> str:
    # A file is no text, and what a model makes of it is another matter.
    texts = (p.text if p.kind == "text" else json.dumps(p.data) for p in parts if p.kind in ("text", "data"))
    return "\n".join(texts)
