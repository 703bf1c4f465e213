"""Where tau2's data come from: the option that says so, and how its value is read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pytest_a2a_bench.configuration.option import Option
from pytest_a2a_bench.configuration.readers import read_text

INSTALLED = "installed"
UPSTREAM = "https://github.com/sierra-research/tau2-bench"
GIT = "git:"
_FORM = "expected installed, a directory, git:REV or git:REV@URL"


@dataclass(frozen=True, slots=True)
class Revision:
    """A revision of a git repository: a tag, a branch or a commit."""

    rev: str
    url: str = UPSTREAM

    def __str__(self) -> str:
        return self.rev + (f" of {self.url}" if self.url != UPSTREAM else "")


def read_source(text: str) -> Revision | Path | None:
    """Read where data are; None for those that are installed.

    :raises ValueError: if it is nothing of the kind.
    """
    text = read_text(text)
    if text == INSTALLED:
        return None
    if not text.startswith(GIT):
        return Path(text)
    # A URL may hold an @ as well (git@host:path), a revision that is worth pinning does not.
    rev, at, url = text.removeprefix(GIT).partition("@")
    return read_revision(rev, url if at else UPSTREAM)


def read_revision(rev: str, url: str = UPSTREAM) -> Revision:
    """Read a revision and the URL of its repository.

    :raises ValueError: if either is nothing that git would take for one, or the URL holds credentials.
    """
    # What begins with a dash would be an option to git.
    if not re.fullmatch(r"[A-Za-z0-9_][^\s~^:?*\[\\\x00-\x1f\x7f@]*", rev):
        raise ValueError(f"{rev!r} is no revision (a tag, a branch or a commit); {_FORM}")
    if not url.strip() or url.startswith("-") or re.search(r"[\s\x00-\x1f\x7f]", url):
        raise ValueError(f"{url!r} is no URL of a git repository; {_FORM}")
    parts = urlsplit(url) if "://" in url else None
    # It would be stored with the results, and shown. A user's name alone belongs to ssh.
    if parts is not None and (parts.password or (parts.username and parts.scheme.startswith("http"))):
        raise ValueError("the URL holds credentials; leave them out: git asks its credential helpers for them")
    return Revision(rev, url)


def _read(text: str) -> str:
    read_source(text)
    return text


def locate_source(text: str, base: Path) -> str:
    """Return a source with its directory made absolute; a repository that is one, too.

    :raises ValueError: if it is no source.
    """
    source = read_source(text)
    if isinstance(source, Path):
        return str(base / source.expanduser())
    if isinstance(source, Revision) and source.url != UPSTREAM and (base / source.url).is_dir():
        return f"{GIT}{source.rev}@{base / source.url}"
    return text


DATA_OPTION = Option(
    "tau2_data",
    "installed|DIR|git:REV[@URL]",
    "tau2's tasks, golds, policies and databases: the installed ones, a checkout's, or a fetched revision's",
    _read,
    default=INSTALLED,
    locate=locate_source,
)
