"""The agent's side of one trial, whatever the benchmark: events in, one utterance out, in the agent's dialect."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Protocol

from pytest_a2a_bench import translate
from pytest_a2a_bench.errors import AgentOutcomeError
from pytest_a2a_bench.model import AgentSaid, Briefing, DialectFinding, Event, Part, ToolCall, Usage
from pytest_a2a_bench.model.bounds import DEFAULT_BOUNDS, Bounds
from pytest_a2a_bench.translate.base import DecodedReply, Dialect


class SessionReply(Protocol):
    """What a session answers."""

    @property
    def parts(self) -> Sequence[Part]:
        """The parts of the answer."""
        ...

    @property
    def usage(self) -> Usage | None:
        """What the agent says this answer cost."""
        ...


class Session(Protocol):
    """One conversation with the agent: what this module needs of the A2A client's ``AgentSession``."""

    @property
    def context_id(self) -> str | None:
        """The contextId that the server gave, once it did."""
        ...

    def send(self, parts: Sequence[Part], timeout: float | None = None) -> SessionReply:
        """Send one message and wait for the answer."""
        ...


@dataclasses.dataclass
class Conversation:
    """The agent's side of one trial, in the words of no benchmark.

    :param dialect: name of the dialect, or ``auto``.
    :param resend: send everything again with each turn (``--a2a-history full``).
    :param bounds: how much of a reply is read and carried out.
    :param before_turn: called before each request; raises to stop the trial; returns the seconds that are left.
    """

    session: Session
    briefing: Briefing
    dialect: str = "auto"
    resend: bool = False
    before_turn: Callable[[], float | None] = lambda: None
    bounds: Bounds = DEFAULT_BOUNDS
    events: list[Event] = dataclasses.field(default_factory=list)
    findings: list[DialectFinding] = dataclasses.field(default_factory=list)
    usage: Usage = dataclasses.field(default_factory=Usage)
    settled: str | None = None
    last_usage: Usage = dataclasses.field(default_factory=Usage)
    _sent: int = 0
    _turn: int = 0
    _calls: int = 0
    _reminded: bool = False

    def ask(self, new: Sequence[Event]) -> AgentSaid:
        """Tell the agent what is new and return what it says: text or calls, never both.

        :raises AgentOutcomeError: if the agent gives up, or says nothing twice.
        """
        self.events.extend(new)
        self._turn += 1
        decoded, usage = self._exchange(self._request())
        # One reminder in a conversation, not one per turn: an agent that needs it each time does not speak the dialect.
        if (decoded.unreadable or _is_empty(decoded)) and not self._reminded:
            self._reminded = True
            decoded, more = self._exchange(self._writer().reminder())
            usage = usage + more
        if _is_empty(decoded):
            raise AgentOutcomeError("the agent's answer is empty: neither text nor a tool call", state="failed")
        said = self._said(decoded)
        self.events.append(said)
        self._sent = len(self.events)
        self.last_usage = usage
        self.usage = self.usage + usage
        return said

    def attempt(self, new: Sequence[Event]) -> AgentSaid:
        """Tell the agent what is new and return what it says, whatever that is, after exactly one exchange.

        For benchmarks that answer an unreadable reply themselves. ``calls`` wins over text; neither is an empty reply.
        """
        self.events.extend(new)
        self._turn += 1
        decoded, self.last_usage = self._exchange(self._request())
        self.usage = self.usage + self.last_usage
        said = self._said(decoded)
        # An empty reply said nothing that the agent would have to be told again.
        if not _is_empty(decoded):
            self.events.append(said)
        self._sent = len(self.events)
        return said

    def note(self, finding: DialectFinding) -> None:
        """Record something about the last reply that only the benchmark can know to be wrong."""
        self.findings.append(dataclasses.replace(finding, turn=self._turn))

    def _writer(self) -> Dialect:
        return translate.get(self.settled or self.dialect)

    def _request(self) -> Sequence[Part]:
        # A server that gives no contextId cannot know what was said before.
        whole = self.resend or self._sent == 0 or self.session.context_id is None
        if whole:
            return self._writer().encode_request(self.briefing, self.events)
        return self._writer().encode_request(None, self.events[self._sent :])

    def _exchange(self, parts: Sequence[Part]) -> tuple[DecodedReply, Usage]:
        reply = self.session.send(parts, timeout=self.before_turn())
        decoded = self._writer().decode_reply(reply.parts, self.briefing.tools, self.bounds)
        if self.dialect == "auto":
            self.settled = translate.settle(self.settled, decoded)
        self.findings.extend(dataclasses.replace(f, turn=self._turn) for f in decoded.findings)
        return decoded, reply.usage or Usage()

    def _said(self, decoded: DecodedReply) -> AgentSaid:
        if not decoded.calls:
            return AgentSaid(text=decoded.text)
        return AgentSaid(calls=tuple(self._with_id(c) for c in decoded.calls))

    def _with_id(self, call: ToolCall) -> ToolCall:
        self._calls += 1
        return call if call.id else dataclasses.replace(call, id=f"call_{self._calls}")


def _is_empty(decoded: DecodedReply) -> bool:
    return not decoded.calls and not (decoded.text and decoded.text.strip())
