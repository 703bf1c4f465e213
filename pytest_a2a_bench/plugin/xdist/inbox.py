"""What an xdist worker has been sent and not begun: xdist has no public name for that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest


def inbox(config: pytest.Config, *, keeps: bool) -> Callable[[], Sequence[int]]:
    """Return what tells the indices of items that this worker will run; none where xdist has them elsewhere.

    :param keeps: whether what waits stays here. Else only the item that comes next does.
    """

    def certain() -> Sequence[int]:
        for plugin in config.pluginmanager.get_plugins():
            queue: Any = getattr(plugin, "torun", None)
            if hasattr(queue, "lock"):
                with queue.lock() as waiting:
                    found = [getattr(plugin, "nextitem_index", None), *(waiting if keeps else ())]
                return [i for i in found if isinstance(i, int)]
        return ()

    return certain
