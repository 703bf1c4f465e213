"""Results directories that stand for another place: what is written into one goes there at once.

Everything else reads and writes files, as ever. A directory is bound to its place for this process alone; where a
binding asks for it, a file that is not there is fetched when it is looked for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class Place(Protocol):
    """Where the files of a results directory really are. Its methods are called from many threads at once."""

    name: str
    """What messages call it."""

    def put(self, name: str, text: str) -> None:
        """Keep a file.

        :param name: relative to the directory, such as ``trials/NAME.json``.
        :raises OSError: if it cannot be kept.
        """
        ...

    def get(self, name: str) -> str | None:
        """Return a file that the directory has not, or None where there is none.

        :raises OSError: if that cannot be told.
        """
        ...

    def claim(self, holder: str) -> str | None:
        """Make the place this process's.

        :param holder: who that is, for others to read.
        :return: who else has it; None where it is ours now.
        :raises OSError: if that cannot be told.
        """
        ...

    def release(self) -> None:
        """Give back what :meth:`claim` took."""
        ...


_PLACES: dict[Path, Place] = {}


def bind(directory: Path, place: Place) -> None:
    """Let a directory stand for a place."""
    _PLACES[directory.resolve()] = place


def unbind(directory: Path) -> None:
    """Let a directory stand for itself again."""
    _PLACES.pop(directory.resolve(), None)


def place_of(directory: Path) -> Place | None:
    """Return what a results directory stands for, if anything."""
    return _PLACES.get(directory.resolve()) if _PLACES else None


def written(path: Path, text: str) -> None:
    """Take a file that was just written to where it belongs.

    :raises OSError: if that fails.
    """
    for directory, place in _PLACES.items():
        if path.is_relative_to(directory):
            place.put(path.relative_to(directory).as_posix(), text)


def fetched(path: Path) -> bytes | None:
    """Return a file that is not in its directory and is where that belongs; None where there is none.

    :raises OSError: if that cannot be told.
    """
    for directory, place in _PLACES.items():
        if path.resolve().is_relative_to(directory):
            text = place.get(path.resolve().relative_to(directory).as_posix())
            return None if text is None else text.encode()
    return None


def shown(path: str) -> str | None:
    """Return how a file is called that is in a place elsewhere; None for any other."""
    for directory, place in _PLACES.items():
        if Path(path).resolve().is_relative_to(directory):
            return f"{place.name}/{Path(path).resolve().relative_to(directory).as_posix()}".removesuffix("/.")
    return None
