"""What an agent that reports no usage is reckoned to have used (``--a2a-agent-model``).

Tokens are those of the messages, as the model's tokenizer counts them: what the agent's model read and wrote beside
them (its own prompt, earlier turns again, thoughts) nobody outside knows, so an estimate is the least that it can be.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pytest_a2a_bench.language_models import price_list
from pytest_a2a_bench.model import Part, TrialResult, Usage, sum_usage

if TYPE_CHECKING:
    from pytest_a2a_bench.a2a.session import AgentSession


def fill_in(session: AgentSession, model: str | None) -> None:
    """Give the requests of a conversation the tokens of their messages, unless the agent has reported any.

    :param model: LiteLLM's name of the agent's model; nothing is estimated without.
    """
    if not model or session.usage.tokens is not None:
        return
    prices, sent = price_list(model), ""
    for entry in session.history:
        if entry.direction == "sent":
            sent = _text(entry.parts)
        elif entry.requests:
            last = entry.requests - 1
            session.metrics[last] = dataclasses.replace(
                session.metrics[last],
                input_tokens=prices.tokens(sent),
                output_tokens=prices.tokens(_text(entry.parts)),
                estimated=True,
            )


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
