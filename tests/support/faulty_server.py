"""The faulty agent: in this process, on ephemeral ports of the running event loop, or in a process of its own."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import NamedTuple

from faulty.serving import FaultyOptions, Running, serve_app, serving

from pytest_a2a_bench.a2a.card import CARD_PATH

__all__ = ["TOKENS", "Running", "serve_app", "serve_faulty", "start_faulty"]

TOKENS = ("first-token", "second-token")

SERVER = Path(__file__).parent.parent / "servers" / "faulty"


class Started(NamedTuple):
    """The URLs of an agent in a process of its own."""

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
    """Serve it in a process of its own, which the judge does not keep waiting."""
    options = {
        "variant": variant,
        "step": step,
        "transport": transport,
        "protocol": protocol,
        "tokens": ",".join(TOKENS),
    }
    if fault is not None:
        options["fault"] = fault
    arguments = [f"--{name}={value}" for name, value in options.items()]
    process = subprocess.Popen(
        [sys.executable, str(SERVER), "--with-parent", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        assert url, f"the faulty agent did not start; exit code {process.wait()}"
        yield Started(url, url + CARD_PATH.lstrip("/"))
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()
