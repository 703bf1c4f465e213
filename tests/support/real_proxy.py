"""Real proxies as processes."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx


@contextlib.contextmanager
def serving(process: subprocess.Popen[bytes], port: int, log: Path) -> Iterator[str]:
    """Wait until a process answers on a port, give its URL, and stop it in the end.

    :param log: says why the process ended before it answered.
    """
    url = f"http://127.0.0.1:{port}"
    try:
        with httpx.Client() as client:
            while process.poll() is None:
                with contextlib.suppress(httpx.TransportError):
                    client.get(f"{url}/")
                    break
        assert process.poll() is None, log.read_text()
        yield url
    finally:
        process.terminate()
        process.wait(20)
