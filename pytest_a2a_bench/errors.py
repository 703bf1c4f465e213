"""Every exception that this package raises on purpose.

Each is an :class:`A2ABenchError`. What the user must change is a :class:`ConfigurationError` or a :class:`CardError`;
trouble around the agent an :class:`InfrastructureError`, an ERROR in every reporter; the agent's own failure an
:class:`AgentOutcomeError`; and a bug of ours a :class:`HarnessError`.
"""

from __future__ import annotations

from collections.abc import Callable

from pytest_a2a_bench.installation import install_command


class A2ABenchError(Exception):
    """Base of all exceptions of this package.

    :ivar party: the name of the agent whose trouble it is, where that is not the one under test.
    """

    party: str | None = None


class ConfigurationError(A2ABenchError):
    """An option, a file or the environment is wrong; each argument is a line with the problem and its remedy."""

    def __str__(self) -> str:
        return "; ".join(map(str, self.args))


class MissingExtraError(ConfigurationError):
    """An optional dependency is not installed."""

    def __init__(self, what: str, extra: str, detail: str = "") -> None:
        self.what = what
        self.extra = extra
        tail = f" ({detail})" if detail else ""
        super().__init__(f"{what} is not installed{tail}; run: {install_command(extra)}")


class CardError(A2ABenchError):
    """An agent card cannot be read, or names no interface that this client speaks."""


class InfrastructureError(A2ABenchError):
    """Trouble around the agent: an ERROR in every reporter, never a FAILURE."""


class TransportError(InfrastructureError):
    """A request did not get a usable HTTP or gRPC answer.

    :param status_code: HTTP status, where there was one.
    :param retry_after: seconds the server asked to wait, where it did.
    """

    def __init__(self, message: str, *, status_code: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.retry_after = retry_after


class EndpointUnreachableError(TransportError):
    """Nothing answers at the endpoint (connection refused, DNS, TLS)."""


class QuotaError(TransportError):
    """A service that a benchmark asks (a live org) gives no more answers for now: nothing that follows fares better."""


class DeliveryUncertain(TransportError):
    """The agent may have worked on a message to which no usable answer came, so the conversation cannot go on.

    The trial is run again from the start, in a new context, at most ``redeliver`` times.

    :param reason: what happened, in few words, as summaries count it: ``HTTP 502``, ``reset after delivery``.
    """

    def __init__(
        self, message: str, *, status_code: int | None = None, retry_after: float | None = None, reason: str = ""
    ) -> None:
        super().__init__(message, status_code=status_code, retry_after=retry_after)
        self.reason: str = reason or "no answer after delivery"


class TurnTimeoutError(TransportError):
    """One turn, with its retries and polling, took longer than ``--a2a-timeout``."""


class StreamStalledError(TurnTimeoutError):
    """A streamed answer had begun, and then nothing came for ``stall-timeout``."""


class ProtocolError(InfrastructureError):
    """The reply cannot be read as A2A.

    :param code: the JSON-RPC error code, where the reply was an error object.
    :param status_code: the HTTP status of a reply that was no A2A answer at all.
    """

    def __init__(self, message: str, *, code: int | None = None, status_code: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.status_code = status_code


class ReplyLimitError(ProtocolError):
    """An answer is larger, or takes more to read, than ``reply-limits`` allows; inside a conversation that is how
    the agent ended it (:class:`AgentOutcomeError`).

    :param limit: the name of the limit, such as ``bytes``.
    """

    def __init__(self, message: str, *, limit: str = "") -> None:
        super().__init__(message)
        self.limit = limit


class AuthenticationError(InfrastructureError):
    """The agent refused our credentials or asks for some.

    :param refused: whether the agent's server refused the request itself (HTTP 401 or 403), as it will refuse others.
    """

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


class TrialTimeoutError(InfrastructureError):
    """A trial took longer than ``--a2a-trial-timeout``."""


class RunTimeoutError(InfrastructureError):
    """The run took longer than ``--a2a-run-timeout``, so this trial was not finished."""


class TrialCancelledError(InfrastructureError):
    """The run is stopping (Ctrl-C, SIGTERM, ``-x``), so this trial was not finished."""


class CassetteError(InfrastructureError):
    """A recorded conversation is missing, damaged, or of other requests than those that are made now."""


class PartyError(InfrastructureError):
    """An agent beside the one under test (who plays the user) gave up, or gives unusable answers."""


class LLMError(InfrastructureError):
    """The language model behind the user simulator or the judge did not answer.

    :param refused: whether its provider refuses to let us use it, as it will the next time.
    """

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


class OwnFunctionError(InfrastructureError):
    """A user's function in the place of a model (``a2a-user/NAME``, ``a2a-judge/NAME``) raised, or returned
    what is no answer; the message names it, its file and its line. Repeated, the trial would end in the same way.
    """


class AgentOutcomeError(A2ABenchError):
    """The agent ended its own A2A task as failed, rejected or canceled.

    :param state: ``failed``, ``rejected`` or ``canceled``.
    """

    def __init__(self, message: str, *, state: str) -> None:
        super().__init__(message)
        self.state = state


class EvaluatorError(A2ABenchError):
    """The benchmark's own evaluator raised: the reward is not known, so none is given."""


class PrerequisiteMissingError(A2ABenchError):
    """The trial needs a key, a package or a program that is not there; the message names it."""


class JudgeMissingError(PrerequisiteMissingError):
    """The benchmark task needs an LLM judge and none is configured."""


class Terminated(KeyboardInterrupt):
    """SIGTERM: the run stops as for Ctrl-C, with its summary, but within two seconds."""


class ConformanceWarning(UserWarning):
    """The agent does not keep a recommendation of the protocol (SHOULD)."""


class HarnessError(A2ABenchError):
    """A bug in pytest-a2a-bench itself."""


def collect_errors(*steps: Callable[[], object]) -> list[str]:
    """Run steps, each of which may refuse a value of the user's, and return their messages."""
    found: list[str] = []
    for step in steps:
        try:
            step()
        except ConfigurationError as error:
            found += error.args
    return found


def raise_errors(*steps: Callable[[], object]) -> None:
    """Run checks of the user's values, and report all their errors at once.

    :raises ConfigurationError: naming all of it.
    """
    found = collect_errors(*steps)
    if found:
        raise ConfigurationError(*found)
