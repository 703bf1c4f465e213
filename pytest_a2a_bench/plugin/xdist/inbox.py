"""What an xdist worker has been sent and not begun: xdist has no public name for that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest


def inbox(config: pytest.Config) -> Callable[[], Sequence[int]]:
    """Return what tells the indices of the items that wait in this worker; none where xdist keeps them elsewhere."""

    def waiting() -> Sequence[int]:
        for plugin in config.pluginmanager.get_plugins():
            queue: Any = getattr(plugin, "torun", None)
            if hasattr(queue, "lock"):
                with queue.lock() as items:
                    return [i for i in items if isinstance(i, int)]
        return ()

    return waiting
