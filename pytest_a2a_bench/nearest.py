"""The nearest valid name for one that is not: what every message about an unknown name ends with."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(names: str | Iterable[str], valid: Iterable[str]) -> str:
    """Return ``; did you mean 'airline'?``, or nothing where no name is near.

    :param names: one that is unknown, or several.
    """
    from difflib import get_close_matches  # for messages only; most processes write none

    unknown = [names] if isinstance(names, str) else list(names)
    # By lower case, since that is what differs most often; the name is shown as it is valid.
    spelt = {one.lower(): one for one in valid}
    near = [spelt[found] for name in unknown for found in get_close_matches(name.lower(), spelt, 1)]
    near = [name for name in dict.fromkeys(near) if name not in unknown]
    return f"; did you mean {' and '.join(map(repr, near))}?" if near else ""
