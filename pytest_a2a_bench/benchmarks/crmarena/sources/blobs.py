"""Files by their git blob ids, which upstream's repository publishes with its history."""

from __future__ import annotations

import hashlib
from pathlib import Path

OFFICIAL = {
    "crmarena_data.db": "86cf4c611eb93e674d3af6047ed1aeb9a7f07416",
    "crmarenapro_b2b_data.db": "6e1978093efd0a7a7c97b65c124d12d098bb917f",
    "crmarenapro_b2c_data.db": "dd0434bfd849dc8212c41d6095e3365ad75a1ce2",
}
"""The databases in upstream's ``local_data/``, by name."""

_CHUNK = 1 << 20


def blob_id(path: Path) -> str:
    """Return the id that git gives a file of this content."""
    digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def is_official(blob: str) -> bool:
    """Tell whether a blob is one that upstream published, under whichever name it is kept."""
    return blob in OFFICIAL.values()
