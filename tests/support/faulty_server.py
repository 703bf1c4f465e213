"""The faulty agent, served by the event loop of a test or in a thread beside it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

from faulty.serving import FaultyOptions, Running, serve_app, serving
from in_thread import served_in_thread

from pytest_a2a_bench.a2a.card import CARD_PATH

__all__ = ["TOKENS", "Running", "serve_app", "serve_faulty", "start_faulty"]

TOKENS = ("first-token", "second-token")


class Started(NamedTuple):
    """The URLs of an agent in a thread of its own."""

    url: str
    card_url: str


def serve_faulty(
    fault: str | None = None,
    variant: str = "auto",
    *,
    step: float = 0.2,
    transport: str = "all",
    protocol: str = "both",
) -> AbstractAsyncContextManager[Running]:
    """Serve the agent with a fault, or correct."""
    return serving(FaultyOptions(fault, variant, step, transport, protocol, ",".join(TOKENS)))


@contextlib.contextmanager
def start_faulty(
    fault: str | None = None,
    variant: str = "auto",
    *,
    step: float = 0.2,
    transport: str = "all",
    protocol: str = "both",
) -> Iterator[Started]:
    """Serve it in a thread of its own."""
    with served_in_thread(
        lambda: serve_faulty(fault, variant, step=step, transport=transport, protocol=protocol)
    ) as running:
        yield Started(running.url, running.url + CARD_PATH.lstrip("/"))
