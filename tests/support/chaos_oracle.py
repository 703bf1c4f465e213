"""A built-in agent behind faults, in this process: one cell of fault, binding, protocol version and streaming."""

import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx
from builtin_server import on_loop
from fault_proxy import Fault, fault_proxy
from faulty_server import serve_app
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from pytest_a2a_bench.a2a.card import CARD_PATH
from pytest_a2a_bench.agents.options import AgentOptions, parse_spec
from pytest_a2a_bench.agents.server import running
from pytest_a2a_bench.chaos import Call, Draws, Faults, proxy_before

GRPC: Mapping[str, Fault] = {"after-delivery": "reset", "half-close": "cut", "hang-before": "hang"}
"""The faults that a proxy of gRPC's bytes injects, and its own names for them."""


@dataclass(frozen=True)
class Harried:
    """An agent behind a proxy.

    :param injected: fault -> how often it was injected so far.
    """

    url: str
    injected: Counter[str]


@contextlib.contextmanager
def harried(
    rates: Mapping[str, float], spec: str = "oracle", *, kinds: tuple[str, ...] = ("send", "task")
) -> Iterator[Harried]:
    """Serve an agent behind faults, on the loop thread of the client.

    :param rates: fault -> probability.
    :param spec: the agent with its options, such as ``oracle?protocol=0.3&transport=rest``.
    """
    options, draws = parse_spec(spec), Draws(dict(rates), 3, kinds)
    faults = Faults(draws, retry_after=0)
    is_grpc = options.transport == "grpc"
    with _before_grpc(options, draws, faults.injected) if is_grpc else on_loop(_before_http(options, faults)) as url:
        yield Harried(url, faults.injected)


@contextlib.asynccontextmanager
async def _before_http(options: AgentOptions, faults: Faults) -> AsyncIterator[str]:
    async with running(options) as served, proxy_before(served.card_url, faults) as url:
        yield url


@contextlib.contextmanager
def _before_grpc(options: AgentOptions, draws: Draws, injected: Counter[str]) -> Iterator[str]:
    def choose(_: int) -> Fault | None:
        fault = draws(Call("", "send"))
        if fault is not None:
            injected[fault] += 1
        return GRPC[fault] if fault is not None else None

    with on_loop(running(options)) as served:
        card = httpx.get(served.card_url, trust_env=False).json()
        target = urlsplit(card["supportedInterfaces"][0]["url"]).port
        with fault_proxy(target, choose) as proxy:
            shown = json.loads(json.dumps(card).replace(f":{target}", f":{proxy.port}"))
            app = Starlette(routes=[Route(CARD_PATH, lambda _: JSONResponse(shown))])
            with on_loop(serve_app(app)) as url:
                yield url
