"""Questions of a worker to its controller and their answers, on a channel of execnet's own connection."""

from __future__ import annotations

import threading
from typing import Any

ANSWER = 300.0
"""Seconds that a worker waits for an answer."""


class Line:
    """The worker's end. For any number of threads, one question at a time."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._number = 0

    def ask(self, *question: str) -> str | None:
        """Ask, and return the answer.

        :raises OSError: if the controller does not answer, or with the problem that it has.
        """
        try:
            with self._lock:
                self._number += 1
                self._channel.send((self._number, *question))
                number = 0
                # What was given up may be answered later, and is nobody's answer then.
                while number != self._number:
                    number, problem, answer = self._channel.receive(ANSWER)
        except Exception as error:  # execnet's own, EOFError among them: whatever it is, the controller did not answer
            raise OSError(f"the controller does not answer ({type(error).__name__})") from error
        if problem:
            raise OSError(problem)
        return None if answer is None else str(answer)
