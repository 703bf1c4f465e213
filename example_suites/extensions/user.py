"""A user of our own: ``--a2a-user llm:a2a-user/hurried``. It is asked as a language model would be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def hurried(messages: Sequence[dict[str, Any]], **arguments: Any) -> str:
    """Ask once, and stop at the first answer. The first message says who the user is and what it wants."""
    heard = [message["content"] for message in messages if message["role"] == "user"]
    return "Where is A1?" if len(heard) < 2 else "###STOP###"
