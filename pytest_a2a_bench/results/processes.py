"""Other processes of this machine: whether one still is there, and whether it is the one that was meant."""

from __future__ import annotations

import os
from pathlib import Path


def is_alive(process_id: int) -> bool:
    """Tell whether a process of this machine runs."""
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    # Ended, and only its parent has not noticed.
    return _status(process_id)[:1] != ["Z"]


def start_of(process_id: int) -> str | None:
    """Return when a process started, as this machine counts; None where that cannot be told.

    What tells a process from a later one of the same number.
    """
    status = _status(process_id)
    return status[19] if len(status) > 19 else None


def _status(process_id: int) -> list[str]:
    """Return the fields of ``/proc/PID/stat`` from the third on (proc(5)); none where there is no such file."""
    try:
        text = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    # The name in brackets may hold anything.
    return text.rpartition(")")[2].split()
