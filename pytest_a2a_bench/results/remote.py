"""Results at an fsspec URL (``s3://bucket/run``): a local directory is bound to it (:func:`.store.bind`)."""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_a2a_bench.errors import ConfigurationError, MissingExtraError
from pytest_a2a_bench.installation import install_command
from pytest_a2a_bench.results.store import bind, unbind

LOCK = "run.lock"
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def is_url(text: str) -> bool:
    """Return whether results are at a URL."""
    return _URL.match(text) is not None


def located(text: str) -> Path:
    """Return the directory of a name or URL; the files at a URL are copied into a new one.

    :raises ConfigurationError: if that fails.
    """
    return opened(text) if is_url(text) else Path(text)


def opened(url: str, *, bring: bool = True) -> Path:
    """Return a new directory whose files are kept at a URL.

    :param bring: whether to copy the files that are there.
    :raises ConfigurationError: if the URL cannot be read, or a package for its scheme is not installed.
    """
    place = Bucket(url.rstrip("/"))
    directory = Path(tempfile.mkdtemp(prefix="a2a-results-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    if bring:
        place.bring(directory)
    bind(directory, place)
    return directory


def closed(directory: Path) -> None:
    """Remove a directory that :func:`opened` returned; the files at the URL stay."""
    unbind(directory)
    shutil.rmtree(directory, ignore_errors=True)


def bind_url(url: str, directory: Path) -> None:
    """Keep the files of a directory at a URL that another process of the same run opened."""
    bind(directory, Bucket(url.rstrip("/")))


class Bucket:
    """The files at a URL.

    :raises ConfigurationError: if a package for its scheme is not installed.
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
        # Only a disk has directories that have to be made.
        made = {"auto_mkdir": True} if url.lower().startswith(("file://", "local://")) else {}
        with _as_configuration_error(url):
            self._files, self._root = fsspec.core.url_to_fs(url, use_listings_cache=False, **made)

    def bring(self, directory: Path) -> None:
        """Copy all files into a directory."""
        self._brought = directory
        with _as_configuration_error(self.name):
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
        """Return None: all files were copied at the beginning."""
        return None

    def claim(self, holder: str) -> str | None:
        """Write the lock object, unless there is one."""
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
                # A library that got no answer asks again, and is refused because of what it has written itself.
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
        """Remove the lock object, if it still is ours."""
        path = f"{self._root}/{LOCK}"
        with self._lock, _as_os_error():
            if self._claimed is not None and self._files.cat_file(path).decode() == self._claimed:
                self._files.rm_file(path)
            self._claimed = None


def _is_ours(name: str) -> bool:
    # An object's name may be anything, and it becomes that of a file here.
    return name != LOCK and re.fullmatch(r"(?:trials/)?[^/\\]+\.json", name) is not None


@contextmanager
def _as_configuration_error(url: str) -> Iterator[None]:
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
        return f"{error} ({install_command('cloud')} brings what S3 takes)"
    return f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(": ")
