"""Results at an fsspec URL (``s3://bucket/run`` and the like): one object for each file of a results directory.

A directory of this process stands for the URL (see mirror.py): what is there is brought when it is opened, and each
file goes there before the trial that it holds counts as stored. So nothing else knows of URLs, and no disk is shared.
"""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_a2a_bench import extensions
from pytest_a2a_bench.errors import ConfigurationError, MissingExtraError
from pytest_a2a_bench.results import mirror

LOCK = "run.lock"
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def is_url(text: str) -> bool:
    """Tell whether results are meant that are not in a directory."""
    return _URL.match(text) is not None


def located(text: str) -> Path:
    """Return the directory that a name or URL means; what is at a URL is brought into one first.

    :raises ConfigurationError: if that fails.
    """
    return opened(text) if is_url(text) else Path(text)


def opened(url: str, *, bring: bool = True) -> Path:
    """Return a new directory of this process that stands for a URL.

    :param bring: whether what is there is needed; else the directory is empty at first.
    :raises ConfigurationError: if the URL cannot be read, or what it takes is not installed.
    """
    place = Bucket(url.rstrip("/"))
    directory = Path(tempfile.mkdtemp(prefix="a2a-results-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    if bring:
        place.bring(directory)
    mirror.bind(directory, place)
    return directory


def closed(directory: Path) -> None:
    """Let go of what :func:`opened` returned."""
    mirror.unbind(directory)
    shutil.rmtree(directory, ignore_errors=True)


def bind(url: str, directory: Path) -> None:
    """Let a directory stand for a URL that another process of the same run opened."""
    mirror.bind(directory, Bucket(url.rstrip("/")))


class Bucket:
    """The files at a URL.

    :raises ConfigurationError: if what its scheme takes is not installed.
    """

    def __init__(self, url: str) -> None:
        self.name = url
        self._lock = threading.Lock()
        self._claimed: str | None = None
        self._brought: Path | None = None
        try:
            import fsspec
        except ImportError:
            raise MissingExtraError("fsspec", "cloud", f"for {url}") from None
        scheme = url.partition("://")[0].lower()
        if scheme in extensions.names("stores"):
            fsspec.register_implementation(scheme, extensions.load("stores", scheme), clobber=True)
        # Only a disk has directories that have to be made.
        made = {"auto_mkdir": True} if url.lower().startswith(("file://", "local://")) else {}
        with _told(url):
            self._files, self._root = fsspec.core.url_to_fs(url, use_listings_cache=False, **made)

    def bring(self, directory: Path) -> None:
        """Copy all that is there into a directory."""
        self._brought = directory
        with _told(self.name):
            there = [str(path) for path in self._files.find(self._root)]
            names = [path.removeprefix(self._root).lstrip("/") for path in there]
            wanted = [(p, str(directory / n)) for p, n in zip(there, names, strict=True) if _is_ours(n)]
            for _, target in wanted:
                Path(target).parent.mkdir(parents=True, exist_ok=True)
            if wanted:
                self._files.get([p for p, _ in wanted], [target for _, target in wanted])

    def put(self, name: str, text: str) -> None:
        """Write an object, whole or not at all."""
        with _as_os_error():
            self._files.pipe_file(f"{self._root}/{name}", text.encode(errors="backslashreplace"))

    def get(self, name: str) -> str | None:
        """Return nothing: all that was there was brought at the beginning."""
        return None

    def claim(self, holder: str) -> str | None:
        """Write the object that says who writes here, unless there is one."""
        path = f"{self._root}/{LOCK}"
        with self._lock, _as_os_error():
            # S3 and others refuse to write where the object is there; what has no such thing is asked beforehand.
            if self._files.exists(path):
                return self._holder(path)
            try:
                self._files.pipe_file(path, holder.encode(), mode="create")
            except Exception as error:  # each file system raises what its libraries do
                try:
                    found = self._holder(path)
                except FileNotFoundError:
                    raise error from None
                # A library that heard no answer asks again, and is refused because of what it has written itself.
                if found != holder:
                    return found
            self._claimed = holder
        if self._brought is not None:
            # Another run may have ended between the copy and the lock.
            try:
                self.bring(self._brought)
            except ConfigurationError as error:
                self.release()
                raise OSError(str(error)) from error
        return None

    def _holder(self, path: str) -> str:
        return str(self._files.cat_file(path).decode(errors="replace"))

    def release(self) -> None:
        """Remove that object, if it still is ours."""
        path = f"{self._root}/{LOCK}"
        with self._lock, _as_os_error():
            if self._claimed is not None and self._files.cat_file(path).decode() == self._claimed:
                self._files.rm_file(path)
            self._claimed = None


def _is_ours(name: str) -> bool:
    # An object's name may be anything, and it becomes that of a file here.
    return name != LOCK and re.fullmatch(r"(?:trials/)?[^/\\]+\.json", name) is not None


@contextmanager
def _told(url: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # each file system raises what its libraries do
        raise ConfigurationError(f"{url}: {_said(error)}") from error


@contextmanager
def _as_os_error() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # as above
        raise OSError(_said(error)) from error


def _said(error: Exception) -> str:
    if isinstance(error, ImportError):
        return f"{error} (pip install 'pytest-a2a-bench[cloud]' brings what S3 takes)"
    return f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(": ")
