"""Salesforce's record ids: 15 characters with case, or 18 that also survive where case is lost."""

from __future__ import annotations

import re
import string

# Each of the three added characters stands for five of the others: bit by bit, which of these are capitals.
_SUFFIX = "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"
_OTHERS = re.compile("[^A-Z]")
_CAPITALS = str.maketrans(string.ascii_uppercase, "1" * 26)
_ID = re.compile(r"[0-9A-Za-z]{15}(?:[0-9A-Za-z]{3})?", re.ASCII)


# Only the form: an id of no record finds nothing and is no error.
def is_record_id(text: str) -> bool:
    """Tell whether a text has the form of a record id."""
    return _ID.fullmatch(text) is not None


def checksum(record_id: str) -> str:
    """Return the three characters that say which of the first fifteen are capitals.

    :param record_id: at least 15 characters.
    """
    bits = _OTHERS.sub("0", record_id).translate(_CAPITALS)
    # The first character is the lowest bit.
    return _SUFFIX[int(bits[4::-1], 2)] + _SUFFIX[int(bits[9:4:-1], 2)] + _SUFFIX[int(bits[14:9:-1], 2)]


def spellings(record_id: str) -> tuple[str, ...]:
    """Return how the id of a record may be stored: with 18 characters, and with 15.

    :param record_id: an id of either length. One of 18 with a wrong checksum is left as it is.
    """
    if len(record_id) == 15:
        return record_id + checksum(record_id), record_id
    if record_id[15:] == checksum(record_id[:15]):
        return record_id, record_id[:15]
    return (record_id,)
