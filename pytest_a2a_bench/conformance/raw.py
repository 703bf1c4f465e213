"""Raw exchanges with an agent, for people's own tests and for single questions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pytest_a2a_bench.a2a import loop
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.finding import Requirement
from pytest_a2a_bench.conformance.session.session import Session
from pytest_a2a_bench.conformance.target import Target
from pytest_a2a_bench.conformance.wire.reply import NoAnswer, SkipCheck, WireReply
from pytest_a2a_bench.errors import A2ABenchError, ConfigurationError

# The context wants a requirement to record findings under; people's own checks have none.
_OWN = Requirement("OWN-001", "own", "", "MUST", "a test of your own")


class RawWire:
    """Every interface of one agent; tasks and configurations made through it are removed by :meth:`close`."""

    def __init__(self, targets: Iterable[Target]) -> None:
        self._sessions: dict[tuple[str, str], Session] = {}
        for target in targets:
            Session(target, self._sessions)

    @property
    def interfaces(self) -> tuple[tuple[str, str], ...]:
        """(binding, version) of each interface, in the card's order."""
        return tuple(self._sessions)

    def call(
        self,
        operation: str,
        params: Mapping[str, Any] | None = None,
        *,
        binding: str | None = None,
        version: str | None = None,
        **options: Any,
    ) -> WireReply:
        """Send one request and return the raw answer; the agent's answer never raises.

        :param binding: ``JSONRPC``, ``HTTP+JSON`` or ``GRPC``; by default that of the first interface.
        :param options: of :meth:`Context.call`: ``headers``, ``version_header``, ``body``, ``stream``, ``timeout``,
            ``until``.
        :raises ConfigurationError: if the card declares no such interface.
        """
        context = Context(_OWN, self._session(binding, version))
        return loop.run(context.call(operation, params, **options))

    def send(self, text: str, **options: Any) -> WireReply:
        """Send one text message; ``options`` as for :meth:`call`."""
        context = Context(_OWN, self._session(options.get("binding"), options.get("version")))
        return self.call("SendMessage", context.send_params(text), **options)

    def close(self) -> None:
        """Cancel and delete the objects made on the agent, and close the connections."""
        for session in self._sessions.values():
            # One after the other: the shared loop serves them, and the sessions of one agent clear up the same tasks.
            loop.run(session.close())

    def _session(self, binding: str | None, version: str | None) -> Session:
        for (b, v), session in self._sessions.items():
            if binding in (None, b) and version in (None, v):
                return session
        asked = " ".join(word for word in (version, binding) if word) or "any"
        declared = ", ".join(f"{v} {b}" for b, v in self._sessions) or "none"
        raise ConfigurationError(f"the card declares no interface {asked}; it declares: {declared}")


def probe(targets: Iterable[Target], operation: str, params: Mapping[str, Any]) -> WireReply | str:
    """Ask an agent's first interface something; return the answer, or why it cannot be asked."""
    wire = RawWire(targets)
    try:
        return wire.call(operation, params)
    except (A2ABenchError, SkipCheck, NoAnswer, ValueError, OSError) as error:
        return str(error)
    finally:
        wire.close()
