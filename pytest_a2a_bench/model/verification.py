"""What a benchmark's own implementation says about a finished trial."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

VerificationStatus = Literal["verified", "differs", "not_verifiable", "failed"]


@dataclass(frozen=True, slots=True)
class Verification:
    """What came of holding a finished trial against the benchmark's own implementation.

    :param status: ``verified`` where all is the same and ``differs`` where it is not; ``not_verifiable`` where the
        benchmark's own says nothing to compare with; ``failed`` where whoever verifies met trouble of its own.
    :param reason: why it is not verifiable, or failed.
    :param differences: what is different, one line each with both sides.
    :param by: what it was held against: a distribution and its version.
    """

    status: VerificationStatus
    reason: str = ""
    differences: tuple[str, ...] = ()
    by: str = ""
