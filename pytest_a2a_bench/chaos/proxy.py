"""The proxy as a whole: a door before every place that an agent's card names."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, NamedTuple

import httpx

from pytest_a2a_bench.a2a.card import CARD_PATH, LEGACY_CARD_PATH, AgentCard
from pytest_a2a_bench.a2a.network import USUAL, Network
from pytest_a2a_bench.a2a.transport import open_client
from pytest_a2a_bench.chaos.doorplate import Doorplate, find_places
from pytest_a2a_bench.chaos.http_proxy import HttpProxy
from pytest_a2a_bench.chaos.journal import Journal
from pytest_a2a_bench.chaos.monkey import Monkey
from pytest_a2a_bench.chaos.spec import ChaosSpec
from pytest_a2a_bench.errors import MissingExtraError

if TYPE_CHECKING:
    from pytest_a2a_bench.a2a.card import GrpcTarget
    from pytest_a2a_bench.chaos.grpc_proxy import GrpcProxy

_WILDCARDS = ("0.0.0.0", "::", "")


@dataclass(frozen=True, slots=True)
class Listen:
    """Where the proxy listens.

    :param port: of the card and the HTTP interfaces beside it; 0 for any free one, as for ``grpc_port``.
    :param public: base URL under which the card shows the proxy; None for the address that it listens on.
    """

    host: str = "127.0.0.1"
    port: int = 0
    grpc_port: int = 0
    public: str | None = None


class Standing(NamedTuple):
    """A proxy that stands.

    :param url: base URL to give to a client in place of the agent's.
    """

    url: str
    card_url: str


@contextlib.asynccontextmanager
async def standing_before(
    card: AgentCard,
    spec: ChaosSpec,
    journal: Journal,
    listen: Listen | None = None,
    *,
    network: Network = USUAL,
    on_restart: Callable[[], Awaitable[None]] | None = None,
) -> AsyncIterator[Standing]:
    """Stand before the agent with that card, as long as the context lasts.

    :param network: what connections to the agent are made with.
    :param on_restart: restarts the agent itself at ``restart-after``; without it only connections are dropped.
    :raises ConfigurationError: if an address cannot be listened on.
    :raises MissingExtraError: if the card names a gRPC interface and grpcio is not installed.
    """
    listen = listen or Listen()
    monkey = Monkey(spec, journal, on_restart)
    places = find_places(card)
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(_make_client(network))
        origins: dict[str, str] = {}
        targets: dict[str, str] = {}
        doorplate = Doorplate(card.url, origins, targets)
        for number, origin in enumerate(places.origins):
            where = (listen.host, 0 if number else listen.port)
            proxy = HttpProxy(monkey, client, origin, doorplate.rewrite, where)
            stack.push_async_callback(proxy.door.close)
            monkey.doors.append(proxy.door)
            public = None if number or listen.public is None else listen.public.rstrip("/")
            origins[origin] = public or f"http://{_reached(listen.host)}:{proxy.door.port}"
        shown_host = urllib.parse.urlsplit(listen.public or "").hostname or _reached(listen.host).strip("[]")
        for number, target in enumerate(places.targets):
            place = (listen.host, 0 if number else listen.grpc_port)
            grpc_proxy = _make_grpc(monkey, target, network, doorplate, place)
            await grpc_proxy.start()
            stack.push_async_callback(grpc_proxy.stop)
            stack.push_async_callback(grpc_proxy.door.close)
            monkey.doors.append(grpc_proxy.door)
            targets[target.address] = f"{_bracketed(shown_host)}:{grpc_proxy.door.port}"
        stack.push_async_callback(monkey.stop)
        await monkey.start()
        here = f"http://{_reached(listen.host)}:{monkey.doors[0].port}"
        yield Standing(here + _base_path(card.url), here + urllib.parse.urlsplit(card.url).path)


def _make_client(network: Network) -> httpx.AsyncClient:
    # A kept connection may be closed while it is chosen, which would be a fault that nobody asked for.
    client = open_client(network, limits=httpx.Limits(max_connections=None, max_keepalive_connections=0))
    client.cookies = httpx.Cookies(CookieJar(DefaultCookiePolicy(allowed_domains=[])))
    for name in ("accept", "user-agent", "connection"):
        del client.headers[name]
    return client


def _make_grpc(
    monkey: Monkey, target: GrpcTarget, network: Network, doorplate: Doorplate, where: tuple[str, int]
) -> GrpcProxy:
    try:
        from pytest_a2a_bench.chaos.grpc_proxy import GrpcProxy
    except ImportError as error:
        raise MissingExtraError("grpcio", "grpc", detail=f"the card names a gRPC interface; {error}") from error
    return GrpcProxy(monkey, target, network, doorplate.rewrite, where)


def _base_path(card_url: str) -> str:
    """Return the path below which the card lies, as a client gives it; a card elsewhere has its own."""
    path = urllib.parse.urlsplit(card_url).path
    base = next((path.removesuffix(p) for p in (CARD_PATH, LEGACY_CARD_PATH) if path.endswith(p)), None)
    return path if base is None else f"{base}/"


def _reached(host: str) -> str:
    return "127.0.0.1" if host in _WILDCARDS else _bracketed(host)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


async def until_stopped() -> None:
    """Wait for SIGINT or SIGTERM."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        await stop.wait()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
