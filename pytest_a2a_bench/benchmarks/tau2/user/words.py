"""What more than one part of this user listens for: alternatives for regular expressions, all matched in any case.

A part adds what only it wants to hear; what two of them mean alike is written here and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

LISTED = re.compile(r":?\s*\n\s*(?:[-*\u2022]|\d[.)])\s*")
"""What announces an entry of a list: the list belongs to the sentence before it."""
EMAIL_ADDRESS = re.compile(r"\b(?:e-?)?mail address", re.I)
"""An address that is no place."""

LOOKS = r"check|look|see|verify|confirm|review"
"""Verbs of looking at something."""
TELLS = rf"{LOOKS}|tell|know|inform|say|report|note|describe"
"""Verbs of looking and of telling what was seen."""
ASKS_FOR = r"provide|share|tell me|give me|send me|supply|state|specify|enter"
"""How somebody is asked for what he knows."""
ASKS_WHY_CALLED = (
    r"how (?:can|may|could) (?:i|we) (?:help|assist)|what (?:can|could) (?:i|we) do|what (?:would you like|"
    r"do you (?:want|need)|brings|is it about|are you calling|seems to be|is the (?:problem|issue|matter))"
)
"""How somebody is asked what he calls about."""
CHANGES = r"cancel|chang|modif|return|exchang"
"""Stems of the verbs of changing what was booked or bought."""
CHANGED = r"cancell?ed|booked|updated|changed|returned|exchanged|sent|created"
"""What is told of something that was done."""
SWITCHES = r"turn|switch|toggle|flip"
"""Verbs of what has two states."""
UNABLE = r"can ?not|can['\u2019]t|unable|not able|won['\u2019]t|afraid|sorry,? but"
"""How somebody says that he will not do it."""
NOT_POSSIBLE = r"possible|eligible|allowed|permitted"
"""What something is not that will not be done."""
PEOPLE = r"human|colleague|specialist|supervisor"
"""Whom a customer is handed over to."""

SPOKEN: Mapping[str, str] = {"basic_economy": "basic economy", "one_way": "one way", "round_trip": "round trip"}
"""Values of arguments as a customer says them, where that is not as they are written."""


def plain(text: str) -> str:
    """Return the words of a text in small letters, with single spaces: texts that differ in nothing else are equal."""
    return " ".join(re.findall(r"\w+", text.lower()))
