"""Cards and keys from files and URLs, as the command line names them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_a2a_bench.conformance.card.document import Document, as_list, as_object, read_document
from pytest_a2a_bench.conformance.card.fetch import MAX_BYTES, get
from pytest_a2a_bench.errors import ConfigurationError, ProtocolError, TransportError


def is_url(source: str) -> bool:
    """Tell whether a source is a URL rather than a file."""
    return source.lower().startswith(("http://", "https://"))


def read_card_file(path: str) -> Document:
    """Read a card from a file; ``-`` is standard input.

    :raises ConfigurationError: if it cannot be read.
    :raises ProtocolError: if it is not JSON.
    """
    return read_document(_read(path, "agent card"))


def load_jwks(source: str, *, timeout: float = 10.0) -> Mapping[str, Any]:
    """Read a JWK set, or one JWK, from a file or an https URL.

    :raises ConfigurationError: if it cannot be read, or holds no key.
    """
    body = _download(source, timeout) if is_url(source) else _read(source, "key set")
    try:
        jwks = as_object(read_document(body).raw)
    except ProtocolError as error:
        raise ConfigurationError(f"key set {source}: {error}; a JWK set is a JSON object with keys") from error
    if not as_list(jwks.get("keys")) and "kty" not in jwks:
        raise ConfigurationError(f"key set {source}: found no keys; a JWK set looks like {{'keys': [{{'kty': ...}}]}}")
    return jwks


def _read(path: str, what: str) -> bytes:
    if path == "-":
        import sys

        return sys.stdin.buffer.read(MAX_BYTES)
    try:
        with Path(path).open("rb") as file:
            return file.read(MAX_BYTES)
    except OSError as error:
        raise ConfigurationError(f"{what} {path}: {error.strerror or error}; give a file or a URL") from error


def _download(url: str, timeout: float) -> bytes:
    import asyncio

    import httpx

    from pytest_a2a_bench.a2a.loop import run

    async def download() -> bytes:
        async with asyncio.timeout(timeout):
            async with httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=timeout) as client:
                answer = await get(client, url, {})
        if answer.problem or answer.status != 200:
            raise ConfigurationError(f"key set {url}: {answer.problem or f'status {answer.status}'}; give another URL")
        return answer.body

    try:
        return run(download())
    except (TimeoutError, TransportError) as error:
        raise ConfigurationError(f"key set {url}: {error or f'no answer within {timeout:g} s'}") from error
