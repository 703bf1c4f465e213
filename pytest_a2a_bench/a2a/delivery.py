"""Which requests may be sent again, and when nobody can tell whether a message arrived (pure).

A2A promises no de-duplication: an agent that gets a message twice may work on it twice. So a message is repeated only
where it certainly was not taken: there was no connection, the agent said 429, or the request had not wholly left when
the trouble came. After anything else without an answer the conversation is tainted: :class:`DeliveryUncertain`.
"""

from __future__ import annotations

import socket
import ssl

from pytest_a2a_bench.errors import DeliveryUncertain, EndpointUnreachableError, TransportError, TurnTimeoutError

TOO_MANY = 429

GATEWAY = frozenset({502, 503, 504})
"""What stands before an agent says these, and cannot know what the agent did with the request. A 500 is not among
them: it usually is the agent's own answer, that it crashed over the message."""


def is_repeatable(error: BaseException, *, left: bool) -> bool:
    """Tell whether the same request may be sent again.

    :param left: whether the request may have reached the agent whole. False too for one that changes nothing.
    """
    if isinstance(error, TurnTimeoutError) or not isinstance(error, TransportError):
        return False
    if isinstance(error, EndpointUnreachableError):
        return not _is_hopeless(error)
    if error.status_code == TOO_MANY:
        return True
    return not left and (error.status_code is None or error.status_code in GATEWAY)


def is_uncertain(error: BaseException, *, left: bool) -> bool:
    """Tell whether the agent may have worked on a message to which no usable answer came.

    A turn that took too long is not meant, although the same is true of it: an agent that is slow would be as slow
    again, and cost as much.

    :param left: whether the message may have reached the agent whole.
    """
    if isinstance(error, TurnTimeoutError | EndpointUnreachableError) or not isinstance(error, TransportError):
        return False
    return left and (error.status_code is None or error.status_code in GATEWAY)


def uncertain(error: TransportError, *, answered: bool, status: str = "") -> DeliveryUncertain:
    """Return the error of a message that may have been delivered, and that got no usable answer.

    :param answered: whether an answer had begun to arrive.
    :param status: what the answer was that says that there is none, such as ``gRPC DEADLINE_EXCEEDED``.
    """
    if status:
        reason = status
    elif error.status_code is not None:
        reason = f"HTTP {error.status_code}"
    else:
        reason = "answer broken off" if answered else "reset after delivery"
    return DeliveryUncertain(
        f"{error}; the agent may have worked on the message all the same, so it is not sent again in this conversation",
        status_code=error.status_code,
        retry_after=error.retry_after,
        reason=reason,
    )


def unasked(error: Exception, task_id: str) -> DeliveryUncertain:
    """Return the error of a message that was delivered, and whose a2a_task cannot be asked for any more."""
    return DeliveryUncertain(
        f"{error}; the agent took the message as task {task_id}, and what came of it cannot be found out",
        status_code=error.status_code if isinstance(error, TransportError) else None,
        retry_after=error.retry_after if isinstance(error, TransportError) else None,
        reason="task lost",
    )


def _is_hopeless(error: BaseException | None) -> bool:
    """Whether the cause is one that does not pass: an unknown host, a refused certificate."""
    for _ in range(8):
        if error is None:
            return False
        if isinstance(error, ssl.SSLError):
            return True
        if isinstance(error, socket.gaierror):
            return error.errno != socket.EAI_AGAIN
        error = error.__cause__ or error.__context__
    return False
