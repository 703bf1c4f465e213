"""Raw exchanges with an agent, for people's own tests: what was sent and what came, unread by any SDK."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pytest_a2a_bench.a2a import loop
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.finding import Requirement
from pytest_a2a_bench.conformance.session.session import Session
from pytest_a2a_bench.conformance.session.target import Target
from pytest_a2a_bench.conformance.wire.reply import WireReply
from pytest_a2a_bench.errors import ConfigurationError

_OWN = Requirement("OWN-001", "own", "", "MUST", "a test of your own")


class RawWire:
    """Every interface of one agent; what is made through it is cleared away by :meth:`close`."""

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
        """Send one request and return the raw answer; never raises for what the agent does.

        :param operation: an operation's 1.0 name, such as ``SendMessage``.
        :param params: in the form of 1.0.
        :param binding: ``JSONRPC``, ``HTTP+JSON`` or ``GRPC``; by default that of the first interface.
        :param options: of :meth:`Context.call`: ``headers``, ``version_header``, ``body``, ``stream``, ``timeout``,
            ``until``.
        :raises ConfigurationError: if the card declares no such interface.
        """
        context = Context(_OWN, self._session(binding, version))
        return loop.run(context.call(operation, params, **options))

    def send(self, text: str, **options: Any) -> WireReply:
        """Send one text message; ``options`` as for :meth:`call`."""
        binding, version = options.pop("binding", None), options.pop("version", None)
        context = Context(_OWN, self._session(binding, version))
        return loop.run(context.call("SendMessage", context.send_params(text), **options))

    def close(self) -> None:
        """Cancel and delete what was made, and close the connections."""
        for session in self._sessions.values():
            loop.run(session.close())

    def _session(self, binding: str | None, version: str | None) -> Session:
        for (b, v), session in self._sessions.items():
            if binding in (None, b) and version in (None, v):
                return session
        asked = " ".join(word for word in (version, binding) if word) or "any"
        declared = ", ".join(f"{v} {b}" for b, v in self._sessions) or "none"
        raise ConfigurationError(f"the card declares no interface {asked}; it declares: {declared}")
