"""Our own client behind a proxy that injects faults, over each binding and protocol version, streaming or not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from chaos_oracle import harried

from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.model import Part

Connect = Callable[..., AgentConnection]


@pytest.mark.slow
@pytest.mark.parametrize("streaming", ["off", "on"])
@pytest.mark.parametrize("protocol", ["1.0", "0.3"])
@pytest.mark.parametrize("transport", ["jsonrpc", "rest"])
def test_a_refusal_before_delivery_is_survived_everywhere(
    transport: str, protocol: str, streaming: str, connect: Connect
) -> None:
    # Of these draws two are faults, and the third reaches the agent.
    with harried({"429": 0.5}, f"noop?protocol={protocol}&transport={transport}", seed=5) as agent:
        connection = connect(
            agent.url, transport=transport, protocol=protocol, streaming=streaming, max_retries=5, timeout=30.0
        )
        reply = connection.session().send([Part("text", text="hello")])

        assert reply.parts
        assert agent.injected["429"] >= 1
        assert agent.draws.requests == agent.injected["429"] + 1
