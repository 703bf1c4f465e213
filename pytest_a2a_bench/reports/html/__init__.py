"""The report page: one file to open in a browser, made from trials, checks, a verdict and a baseline.

Of many trials it may be a directory: the page, and transcripts in files beside it that are read when one is opened.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from pytest_a2a_bench.reports.contents import Contents
from pytest_a2a_bench.reports.html.page import render
from pytest_a2a_bench.results.store import write_atomically

__all__ = ["render", "write"]

_PAGE = "index.html"
_BESIDE = "transcripts"


def write(target: str, contents: Contents) -> Path:
    """Write a page whole or not at all, readable by its owner only: it holds what was said.

    :param target: a file; ending in a slash, a directory with ``index.html`` and its transcripts beside it.
    :return: the page.
    :raises OSError: if it cannot be written.
    """
    path = Path(target)
    if not target.endswith("/"):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, render(contents))
        return path
    beside = path / _BESIDE
    beside.mkdir(parents=True, exist_ok=True)
    kept: set[str] = set()

    def keep(page: str) -> str:
        # By what is in it, so that a page that is there already goes on showing its own until it is replaced.
        name = f"{hashlib.sha256(page.encode()).hexdigest()[:20]}.html"
        write_atomically(beside / name, page)
        kept.add(name)
        return f"{_BESIDE}/{name}"

    page = path / _PAGE
    write_atomically(page, render(contents, keep))
    for old in beside.glob("*.html"):
        # Nothing but what an earlier page left.
        if old.name not in kept and re.fullmatch(r"[0-9a-f]{20}\.html", old.name):
            old.unlink(missing_ok=True)
    return page
