"""Our own client against chaos, in every combination of binding, protocol version and streaming."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from chaos_oracle import harried

from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.errors import DeliveryUncertain
from pytest_a2a_bench.model import Part

Connect = Callable[..., AgentConnection]


def test_a_deadline_of_somebody_else_is_a_gateways(connect: Connect) -> None:
    with harried("504-late=1", "noop?transport=grpc") as agent, pytest.raises(DeliveryUncertain) as caught:
        connect(agent.url, transport="grpc", timeout=600.0).session().send([Part("text", text="hello")])

    assert caught.value.reason == "gRPC DEADLINE_EXCEEDED"
    assert agent.journal.requests == 1


@pytest.mark.slow
@pytest.mark.parametrize("streaming", ["off", "on"])
@pytest.mark.parametrize("protocol", ["1.0", "0.3"])
@pytest.mark.parametrize("transport", ["jsonrpc", "rest", "grpc"])
def test_a_refusal_before_delivery_is_survived_everywhere(
    transport: str, protocol: str, streaming: str, connect: Connect
) -> None:
    # Of these draws two are faults, and the third reaches the agent.
    with harried("429-retry=0.5,retry-after=0,seed=5", f"noop?protocol={protocol}&transport={transport}") as agent:
        connection = connect(
            agent.url, transport=transport, protocol=protocol, streaming=streaming, max_retries=5, timeout=30.0
        )
        reply = connection.session().send([Part("text", text="hello")])

        assert reply.parts
        assert agent.journal.injected["429-retry"] >= 1
        assert agent.journal.requests == agent.journal.injected["429-retry"] + 1
        assert agent.journal.troubles == 0
