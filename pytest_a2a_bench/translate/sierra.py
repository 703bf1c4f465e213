"""The ``sierra`` dialect: the A2A experiment inside tau2-bench itself.

Answers are ``<json>{"name", "arguments"}</json>``; ``respond`` with ``content`` speaks to the user. Its own example
shows the literal ``{RESPOND_ACTION_NAME}``, which agents copy: it is read as ``respond``.
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_a2a_bench.model import AgentSaid, Briefing, Event, Part, ToolSpec, UserSaid
from pytest_a2a_bench.translate.base import DecodedReply, DecodedRequest
from pytest_a2a_bench.translate.foreign import LIST_LINE, actions, dump, labelled, read_request
from pytest_a2a_bench.translate.marks import Piece, join_pieces
from pytest_a2a_bench.translate.reading import Rules, read_reply
from pytest_a2a_bench.translate.schemas import tools_to_text

USER_MARKER = "User message: "
"""What stands before the user's words in a first message."""

TAG_LINE = "Please wrap the JSON part with <json>...</json> tags."
"""The sentence by which this format is told from ``agentbeats``."""

_FORMAT = f"""\
Please response in the JSON format. {TAG_LINE}
The JSON should contain:
- "name": the tool call function name, or "respond" if you want to respond directly.
- "arguments": the arguments for the tool call, or {{"content": "your message here"}} if you want to respond directly.
You should only use one tool at a time!!
You cannot respond to user and use a tool at the same time!!
"""
_NEXT = "Next, I'll provide you with the user message and tool call results.\n"
_REMINDER = f"Your last answer could not be read; nothing was executed and the user saw none of it.\n{_FORMAT}"

_RULES = Rules(
    "sierra",
    text_shapes=frozenset({"tagged", "bare"}),
    data_shapes=frozenset({"bare"}),
    json_asked=True,
    one_call=True,
)


class SierraDialect:
    """See the module's docstring."""

    name = "sierra"

    def encode_request(self, briefing: Briefing | None, events: Sequence[Event]) -> tuple[Part, ...]:
        """Write one text part."""
        head = _head(briefing) if briefing else ""
        pieces = [Piece(*labelled(e), e) for e in events]
        match events:
            case [UserSaid(text), *_] if briefing:
                pieces[0] = Piece(USER_MARKER, text, events[0])
        return (join_pieces(head, pieces),)

    def decode_reply(self, parts: Sequence[Part], tools: Sequence[ToolSpec]) -> DecodedReply:
        """Read calls or a ``respond``."""
        return read_reply(parts, tools, _RULES)

    def decode_request(self, parts: Sequence[Part]) -> DecodedRequest:
        """Read back what :meth:`encode_request` wrote, or what tau2-bench's own experiment did."""
        return read_request(parts, USER_MARKER, "\n")

    def encode_reply(self, reply: AgentSaid) -> tuple[Part, ...]:
        """Write one text part with a tagged block for each call."""
        return (Part.of_text("\n".join(f"<json>\n{dump(a)}\n</json>" for a in actions(reply))),)

    def reminder(self) -> tuple[Part, ...]:
        """Tell how an answer must look."""
        return (Part.of_text(_REMINDER),)


def _head(briefing: Briefing) -> str:
    tools = tools_to_text(briefing.tools)
    listing = f"{LIST_LINE} (you can use at most one tool at a time):\n{tools}\n"
    return f"{briefing.policy}\n{listing}{_FORMAT}\n{_NEXT}"
