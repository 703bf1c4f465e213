import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from raw_agent import Handler, RawAgent, raw_agent

from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig

Connect = Callable[..., AgentConnection]
Serve = Callable[..., RawAgent]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Open connections that are closed at the end of the test; quick to give up unless told otherwise."""
    opened: list[AgentConnection] = []

    def open_one(endpoint: str, **options: Any) -> AgentConnection:
        values = {"timeout": 10.0, "max_retries": 0, "backoff_base": 0.01, "poll_interval": 0.01, **options}
        opened.append(AgentConnection(ClientConfig(endpoint=endpoint, **values)))
        return opened[-1]

    yield open_one
    for connection in opened:
        connection.close()


@pytest.fixture
def serve() -> Iterator[Serve]:
    with contextlib.ExitStack() as stack:

        def start(handler: Handler, card: dict[str, Any] | None = None) -> RawAgent:
            return stack.enter_context(raw_agent(handler, card))

        yield start


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The files of an authority, of :mod:`private_network`, which only few tests have to import."""
    from private_network import Place

    return Place.at(tmp_path_factory.mktemp("authority"))
