"""What one metric says about one answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Verdict:
    """A number and where it comes from.

    :param value: 0 to 1.
    :param description: what is right or wrong with the answer, for people; never with the gold in it.
    :param extractor: what read the answer: ``literal`` (it is the gold, letter by letter), ``rules``, ``llm``, or None.
    :param judge: what recognised the refusal: ``rules``, ``llm``, or None.
    :param metrics: further numbers, by name.
    :param note: what else a reader of the number must know.
    """

    value: float
    description: str
    extractor: str | None = None
    judge: str | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    note: str = ""
