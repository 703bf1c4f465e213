"""A place of our own for results, ``--a2a-results shelf://run``: files in a directory beside the project."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem


class Shelf(DirFileSystem):
    """Any class of fsspec's will do; in earnest it would speak to something elsewhere."""

    protocol = "shelf"
    cachable = False  # the directory is found anew: another run in this process may have another project

    def __init__(self, **options: Any) -> None:
        super().__init__(path=str(Path("shelf").absolute()), fs=LocalFileSystem(auto_mkdir=True))

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path.removeprefix("shelf://")
