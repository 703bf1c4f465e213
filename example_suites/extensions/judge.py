"""A judge of our own: ``--a2a-judge-llm a2a-judge/polite``. It is asked as a language model would be."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any


def polite(messages: Sequence[dict[str, Any]], **arguments: Any) -> str:
    """Find every criterion true of a conversation without rude words, in the JSON that scenarios ask judges for."""
    system, talk = messages[0]["content"], messages[-1]["content"]
    criteria = re.findall(r"^(\d+)\. ", system, re.MULTILINE)
    return json.dumps({"results": [{"number": int(n), "metExpectation": "stupid" not in talk} for n in criteria]})
