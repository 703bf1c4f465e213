"""Keep Python's cyclic garbage collector still while tau2 builds and hashes its databases.

One airline database is some 140,000 objects; allocating them triggers full collections that find nothing and cost as
much as the work itself (measured: 1.1 s against 0.55 s of CPU per airline trial). Nothing about a reward can depend on
when garbage is collected.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

# One block at a time: the work is bound by the interpreter lock anyway, and blocks that overlapped for ever would keep
# the collector off for ever.
_LOCK = threading.Lock()


@contextlib.contextmanager
def paused_collector() -> Iterator[None]:
    """Switch the collector off inside the block, and leave it as it was found.

    For computation only: whatever waits (a judge's model) would keep every other conversation waiting too.
    """
    with _LOCK:
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if was_enabled:
                gc.enable()
