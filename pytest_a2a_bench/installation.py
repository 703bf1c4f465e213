"""Where this copy was installed from, and so the command that installs an extra of it."""

from __future__ import annotations

import json
from importlib.metadata import distribution
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

NAME = "pytest-a2a-bench"


def source() -> str:
    """Return the URL that this copy was installed from, with its commit, as PEP 610 has it; empty for an index."""
    found = _direct_url()
    vcs = found.get("vcs_info")
    return f"{vcs['vcs']}+{found['url']}@{vcs['commit_id']}" if vcs else found.get("url", "")


def install_command(*extras: str) -> str:
    """Return the command that adds extras to this copy: a name alone may stand for nothing on the user's index.

    :param extras: names of extras, such as ``tau2``; ``EXTRA`` may stand for any.
    """
    wanted = f"[{','.join(extras)}]" if extras else ""
    found = source()
    if not found.startswith("file:"):
        return f"pip install '{NAME}{wanted} @ {found}'" if found else f"pip install '{NAME}{wanted}'"
    path = unquote(urlsplit(found).path)
    if not Path(path).exists():
        # What was installed from a directory that is gone, as in an image, can only be named.
        return f"pip install '{NAME}{wanted}'"
    editable = "-e " if _direct_url().get("dir_info", {}).get("editable") else ""
    return f"pip install {editable}'{path}{wanted}'"


def _direct_url() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(distribution(NAME).read_text("direct_url.json") or "{}")
    return found
