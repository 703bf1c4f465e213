"""Whatever goes wrong with an agent beside the one under test is trouble around that one, and says whose it is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pytest_a2a_bench.benchmarks.parties import Seat
from pytest_a2a_bench.errors import (
    A2ABenchError,
    DeliveryUncertain,
    InfrastructureError,
    PartyError,
    TrialCancelledError,
    TrialTimeoutError,
)


@contextlib.contextmanager
def blamed(seat: Seat) -> Iterator[None]:
    """Let what goes wrong inside the block be an agent's trouble.

    :raises InfrastructureError: with its ``party``. A trial that is stopped, or whose time is up, stays that.
    """
    try:
        yield
    except (TrialCancelledError, TrialTimeoutError):
        raise
    except InfrastructureError as error:
        error.party = seat.name
        # A conversation whose error is known already raises the same again.
        if not str(error).startswith(_words(seat)):
            error.args = (f"{_words(seat)}: {error}",)
            if isinstance(error, DeliveryUncertain):
                error.reason = f"{seat.name}: {error.reason}"
        raise
    except A2ABenchError as error:  # it gave up, its card cannot be used
        raise trouble(seat, str(error)) from error


def trouble(seat: Seat, what: str) -> PartyError:
    """Return an error of an agent's."""
    error = PartyError(f"{_words(seat)}: {what}")
    error.party = seat.name
    return error


def _words(seat: Seat) -> str:
    is_user = seat.further.role == "user"
    return "the agent that plays the user" if is_user else f"the {seat.further.role} {seat.name!r}"
