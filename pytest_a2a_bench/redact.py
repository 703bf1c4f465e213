"""Text from elsewhere, made harmless for terminals and reports (pure)."""

from __future__ import annotations

import re
import unicodedata

_SHOWN = 400
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_].*?(?:\x1b\\|\x07|$)|[ -/]*[0-~])|\x9b[0-?]*[ -/]*[@-~]", re.S
)


def sanitise(text: str) -> str:
    """Remove escape sequences and control, bidirectional and invisible characters; line breaks and tabs stay."""
    plain = _ESCAPES.sub("", text.replace("\r\n", "\n"))
    if plain.isprintable():  # nearly always, and a hundred times faster than looking at each character
        return plain
    return "".join(c for c in plain if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co"))


def one_line(text: str, limit: int = _SHOWN) -> str:
    """Return sanitised text on one line, shortened."""
    plain = " ".join(sanitise(text).split())
    return plain if len(plain) <= limit else plain[: limit - 3] + "..."
