"""The nearest valid name for one that is not: what every message about an unknown name ends with."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(name: str, valid: Iterable[str]) -> str:
    """Return ``; did you mean 'airline'?``, or nothing where no name is near."""
    from difflib import get_close_matches  # for messages only; most processes write none

    # By lower case, since that is what differs most often; the name is shown as it is valid.
    spelt = {one.lower(): one for one in valid}
    near = get_close_matches(name.lower(), spelt, 1)
    return f"; did you mean {spelt[near[0]]!r}?" if near and spelt[near[0]] != name else ""
