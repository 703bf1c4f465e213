"""Fetch cards from agents and files, and key sets from files and URLs."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
import time
import urllib.parse
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from pytest_a2a_bench.a2a.auth import authentication
from pytest_a2a_bench.a2a.bodies import as_list, as_object, excerpt
from pytest_a2a_bench.a2a.card import LEGACY_CARD_PATH, card_urls, in_either_version, is_at, narrow_to_endpoint
from pytest_a2a_bench.a2a.config import AuthParts, ClientConfig
from pytest_a2a_bench.a2a.loop import run
from pytest_a2a_bench.a2a.network import USUAL, Network
from pytest_a2a_bench.a2a.transport import RefusedConnection, open_client
from pytest_a2a_bench.config.settings import AUTH_ENV
from pytest_a2a_bench.conformance.card.document import Document, Ledger, read_document
from pytest_a2a_bench.conformance.card.judge import CardHttp, card_versions, check_served
from pytest_a2a_bench.conformance.card.urls import judge_url
from pytest_a2a_bench.conformance.finding import CARD, Exchange, Finding
from pytest_a2a_bench.conformance.wire.exchange import MORE_TIME, Redactor, late
from pytest_a2a_bench.errors import ConfigurationError, EndpointUnreachableError, ProtocolError, TransportError
from pytest_a2a_bench.redact import redact_url
from pytest_a2a_bench.text import reason_of

MAX_BYTES = 2 * 1024 * 1024
_SHOWN = 4096
_MAX_REDIRECTS = 3
_REFUSALS = (401, 403)
_TOKEN_ADVICE = f"put a token in {AUTH_ENV}"
_VERSION = "a2a-version"
_REDIRECTS = (301, 302, 303, 307, 308)

Fetched = tuple[Any | None, CardHttp, list[Finding]]


Answer = tuple[CardHttp, bytes]
"""How a server answered one request, and the body as far as it was read."""


def fetch_card(url: str, *, config: ClientConfig | None = None, timeout: float = 10.0) -> Fetched:
    """Fetch a card; see :func:`fetch_card_async`."""
    return run(fetch_card_async(url, config=config, timeout=timeout))


async def fetch_card_async(url: str, *, config: ClientConfig | None = None, timeout: float = 10.0) -> Fetched:
    """Fetch a card from its own URL, or from an agent's base URL.

    :param config: has certificates, proxies, and the credentials, which are sent to a server that asks for them: cards
        are public by rule.
    :param timeout: seconds for all requests together.
    :returns: the card (None where there is none), how it was served, and the findings about that. Give the second
        to :func:`check_card`, which has the same findings among its own.
    :raises TransportError: if nothing answers there, or not in time.
    :raises CardError: if the only card is the one of another agent, at the server's root.
    :raises ConfigurationError: if it is no URL of http or https.
    """
    # httpx's message about a URL that it cannot use says less.
    if judge_url(url).problem:
        raise ConfigurationError(f"{redact_url(url)!r} is not the URL of a card; use http://HOST:PORT or a file")
    auth = authentication(config, None) if config is not None else AuthParts()
    async with open_client(config.network if config is not None else USUAL, timeout=timeout) as client:
        try:
            async with asyncio.timeout(timeout):
                protocol = config.protocol if config is not None else "auto"
                advice = config.token_advice if config is not None else _TOKEN_ADVICE
                raw, http = await find_card(client, url, auth, protocol, advice)
        except TimeoutError as error:
            # No rule says how soon a card has to come.
            raise TransportError(f"agent card of {redact_url(url)}: {late(timeout)}; {MORE_TIME}") from error
    version = card_versions(raw)[0]
    ledger = Ledger(version)
    check_served(http, version, ledger)
    return raw, http, Redactor(config.secrets if config is not None else ()).findings(ledger.findings())


async def get(client: httpx.AsyncClient, url: str, headers: Mapping[str, str]) -> Answer:
    """Get a URL, following redirects within its origin.

    :raises EndpointUnreachableError: if nothing answers there.
    """
    # httpx would follow a redirect to any host, with the credentials.
    for _ in range(_MAX_REDIRECTS + 1):
        http, body = await _get_once(client, url, headers)
        target = http.headers.get("location")
        if http.status not in _REDIRECTS or not target:
            return http, body
        following = urllib.parse.urljoin(url, target)
        # Another origin may serve another agent's card.
        if not is_at(following, url):
            shown = redact_url(following)[:200]
            problem = f"{redact_url(url)} redirects to another origin ({shown!r}); not followed"
            return replace(http, problem=problem), body
        url = following
    return replace(http, problem=f"{redact_url(url)} redirects more than {_MAX_REDIRECTS} times"), body


async def find_card(
    client: httpx.AsyncClient, url: str, auth: AuthParts, protocol: str = "auto", advice: str = _TOKEN_ADVICE
) -> tuple[Any | None, CardHttp]:
    """Fetch a card over an open client; see :func:`fetch_card_async`."""
    first: CardHttp | None = None
    # The path of 1.0 and 0.3 first, the one of 0.2 after it.
    for candidate in card_urls(url):
        ask = partial(_get_showing_token_if_asked, client, candidate, auth)
        asked, answer = await in_either_version(ask, lambda found: found[1][0].status, protocol)
        raw, http = _read(answer, is_legacy=urllib.parse.urlsplit(candidate).path.endswith(LEGACY_CARD_PATH))
        if http.status in _REFUSALS and not auth:
            http = replace(http, problem=f"{http.problem}; it may want credentials: {advice}")
        if not http.problem:
            if isinstance(raw, Mapping):
                narrow_to_endpoint(raw, url, http.url)  # refuses another agent's card
            http = await _with_other_view(client, http, asked)
            if etag := http.headers.get("etag"):
                # A server that stops in between has served its card all the same.
                with contextlib.suppress(EndpointUnreachableError):
                    again, _ = await get(client, http.url, {**asked, "If-None-Match": etag})
                    http = replace(http, conditional_status=again.status)
            return raw, http
        # The first answer is about the path that a card should have.
        first = first or http
        if http.status not in (404, 405, 410):  # a server that has the path
            break
    assert first is not None
    return None, first


async def _with_other_view(client: httpx.AsyncClient, http: CardHttp, asked: Mapping[str, str]) -> CardHttp:
    """Add the card that a client of 0.3 gets, if the answer varies by the version."""
    varies = [name.strip().lower() for name in http.headers.get("vary", "").split(",")]
    if _VERSION not in varies or _VERSION not in map(str.lower, asked):
        return http
    with contextlib.suppress(EndpointUnreachableError):
        headers = {name: value for name, value in asked.items() if name.lower() != _VERSION}
        other, _ = _read(await get(client, http.url, headers), is_legacy=False)
        # A server without a card for 0.3 may refuse.
        return replace(http, other=other) if isinstance(other, Mapping) else http
    return http


async def _get_showing_token_if_asked(
    client: httpx.AsyncClient, url: str, auth: AuthParts, version: Mapping[str, str]
) -> tuple[dict[str, str], Answer]:
    """Return the headers sent, and the answer; a token is sent only to a server that asks for one."""
    headers = dict(version)
    answer = await get(client, url, headers)
    if answer[0].status not in _REFUSALS or not auth:
        return headers, answer
    headers |= auth.headers
    return headers, await get(client, url, headers)


def _read(answer: Answer, *, is_legacy: bool) -> tuple[Any | None, CardHttp]:
    http, body = answer
    if http.problem:
        return None, http
    if http.status != 200:
        return None, replace(http, problem=f"GET {redact_url(http.url)} answers {http.status}")
    try:
        document = read_document(body)
    except ProtocolError as error:
        return None, replace(http, problem=f"the card is not JSON ({error}); it begins with {excerpt(body, 80)}")
    return document.raw, replace(http, is_legacy=is_legacy, duplicates=document.duplicates)


async def _get_once(client: httpx.AsyncClient, url: str, headers: Mapping[str, str]) -> Answer:
    # A compressed answer may grow without bound when it is unpacked.
    asked = {"Accept": "application/json", "Accept-Encoding": "identity", **headers}
    body, begin = bytearray(), time.perf_counter()
    problem = ""
    status: int | None = None
    received: dict[str, str] = {}
    try:
        async with client.stream("GET", url, headers=asked) as response:
            status = response.status_code
            received = {k.lower(): v for k, v in response.headers.items()}
            async for chunk in response.aiter_bytes():
                body += chunk[: MAX_BYTES - len(body)]
                if len(body) >= MAX_BYTES:
                    problem = f"the answer is larger than {MAX_BYTES} bytes, and was not read further"
                    break
    except RefusedConnection as error:
        raise EndpointUnreachableError(f"{redact_url(url)}: {error}") from error
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise EndpointUnreachableError(
            f"nothing answers at {redact_url(url)} ({error}); start the agent, or correct the URL"
        ) from error
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, ValueError) as error:
        problem = f"GET {redact_url(url)}: {type(error).__name__}" + (f": {str(error)[:200]}" if str(error) else "")
    exchange = Exchange(
        binding=CARD,
        method="GET",
        url=redact_url(url),
        http_method="GET",
        status=status,
        # Evidence is shown in reports, and these two hold credentials.
        response_headers={k: v for k, v in received.items() if k not in ("set-cookie", "authorization")},
        response=body[:_SHOWN].decode("utf-8", "replace"),
        problem=problem,
        seconds=time.perf_counter() - begin,
    )
    return CardHttp(url, status, received, problem=problem, exchange=exchange), bytes(body)


# -- what the command line names --


def is_url(source: str) -> bool:
    """Return whether a source is a URL, and not a file."""
    return source.lower().startswith(("http://", "https://"))


def read_card_file(path: str) -> Document:
    """Read a card from a file; ``-`` is standard input.

    :raises ConfigurationError: if it cannot be read.
    :raises ProtocolError: if it is not JSON; the message says how the file begins.
    """
    body = _read_file(path, "agent card")
    try:
        return read_document(body)
    except ProtocolError as error:
        begins = f"it begins with {excerpt(body, 80)}" if body.strip() else "it is empty"
        raise ProtocolError(f"the card is not JSON ({error}); {begins}") from error


def load_jwks(source: str, *, timeout: float = 10.0, network: Network = USUAL) -> Mapping[str, Any]:
    """Read a JWK set, or one JWK, from a file or an https URL.

    :param network: how a URL is reached; our certificate is not shown there.
    :raises ConfigurationError: if it cannot be read, or holds no key.
    """
    if is_url(source):
        body = _download(source, timeout, network.without_certificate())
    else:
        body = _read_file(source, "key set")
    try:
        jwks = as_object(read_document(body).raw)
    except ProtocolError as error:
        raise ConfigurationError(f"key set {source}: {error}; a JWK set is a JSON object with keys") from error
    if not as_list(jwks.get("keys")) and "kty" not in jwks:
        raise ConfigurationError(f"key set {source}: found no keys; a JWK set looks like {{'keys': [{{'kty': ...}}]}}")
    return jwks


def _read_file(path: str, what: str) -> bytes:
    if path == "-":
        return sys.stdin.buffer.read(MAX_BYTES)
    try:
        with Path(path).open("rb") as file:
            return file.read(MAX_BYTES)
    except OSError as error:
        near = f", such as http://{path}" if re.match(r"[\w.-]+:\d+(?:/|$)", path) else ""
        raise ConfigurationError(f"{what} {path}: {reason_of(error)}; give a file or a URL{near}") from error


def _download(url: str, timeout: float, network: Network) -> bytes:
    async def download() -> bytes:
        async with asyncio.timeout(timeout):
            # Without credentials: a key set may be on any server.
            async with open_client(network, timeout=timeout) as client:
                http, body = await get(client, url, {})
        if http.problem or http.status != 200:
            raise ConfigurationError(f"key set {url}: {http.problem or f'status {http.status}'}; give another URL")
        return body

    try:
        return run(download())
    except (TimeoutError, TransportError) as error:
        raise ConfigurationError(f"key set {url}: {error or f'no answer within {timeout:g} s'}") from error
