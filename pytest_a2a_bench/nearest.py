"""Find the nearest valid name, which every message about an unknown name ends with."""

from __future__ import annotations

import re
from collections.abc import Iterable


def did_you_mean(names: str | Iterable[str], valid: Iterable[str]) -> str:
    """Return ``; did you mean 'airline'?``, or nothing where no name is near.

    :param names: one that is unknown, or several.
    """
    unknown = [names] if isinstance(names, str) else list(names)
    every = list(valid)
    near = [found for name in unknown for found in nearest(name, every, 1)]
    near = [name for name in dict.fromkeys(near) if name not in unknown]
    return f"; did you mean {' and '.join(map(repr, near))}?" if near else ""


def nearest(name: str, valid: Iterable[str], most: int, cutoff: float = 0.6) -> list[str]:
    """Return the valid names that are most like one, best first.

    :param most: how many there may be.
    :param cutoff: the lowest likeness, from 0 to 1.
    """
    from difflib import get_close_matches  # for messages only; most processes write none

    # By case and leading zeros names differ most often; a name is shown as it is valid.
    spelt = {_plain(one): one for one in valid}
    return [spelt[found] for found in get_close_matches(_plain(name), spelt, most, cutoff)]


def _plain(name: str) -> str:
    return re.sub(r"(?<!\d)0+(?=\d)", "", name.lower())
