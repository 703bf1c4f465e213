"""How many messages a run may still send: a ceiling that holds whatever the agent does."""

from __future__ import annotations

from pytest_a2a_bench.conformance.check import SkipCheck


class Allowance:
    """Counts messages of one run, over all its interfaces.

    :param most: messages that it may send.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._sent = 0

    # What a plan expects of a correct agent, another may exceed: where something fails, it is tried again.
    def take(self) -> None:
        """Allow one message more.

        :raises SkipCheck: if there is none left.
        """
        if self._sent >= self._most:
            raise SkipCheck(f"the budget of {self._most} {_SPENT}")
        self._sent += 1


_SPENT = "messages is spent"


def is_spent(reason: str) -> bool:
    """Tell whether a check was skipped because no message was left for it."""
    return reason.endswith(_SPENT)
