"""Serves a framework that opens its port by itself."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from peer_brain import free_port, port_of_arguments


def serve_itself(run: Callable[[str, int], Any], path: str = "") -> None:
    """Do as :func:`peer_brain.serve`, for such a framework.

    :param run: serves on a host and port until the process ends.
    """
    port = port_of_arguments() or free_port()

    def watch() -> None:
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.05)
        print(json.dumps({"url": f"http://127.0.0.1:{port}{path}"}), file=message, flush=True)
        sys.stdin.read()
        os._exit(0)

    # What it writes to stdout itself must not be taken for the URL.
    message, sys.stdout = sys.stdout, sys.stderr
    threading.Thread(target=watch, daemon=True).start()
    run("127.0.0.1", port)
