"""tau2's agent interface over A2A, where each turn of the orchestrator is one message to the endpoint; and its user
interface, for an agent that plays the user.

The class is made for the installed flavour's base class, so that tau2's own registry accepts it too.

tau2's tool ``calculate`` evaluates whatever is made of digits and operators, ``9**9**9**9`` too: that never ends.
Python's big numbers cannot be interrupted and hold the interpreter's lock, so one such call would stop the whole
process, and again in upstream's evaluator, which replays it. So the call itself is made harmless before anybody carries
it out (:func:`defuse`).
"""

from __future__ import annotations

import ast
import functools
import importlib
import math
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

from pytest_a2a_bench.benchmarks.base import Seat
from pytest_a2a_bench.benchmarks.conversation import Conversation
from pytest_a2a_bench.benchmarks.participants import Speaker, blamed, trouble
from pytest_a2a_bench.benchmarks.tau2.upstream import Tau2
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.dialects.serialization import parse_python
from pytest_a2a_bench.errors import ConfigurationError, PartyError
from pytest_a2a_bench.model import (
    AgentSaid,
    Briefing,
    DialectFinding,
    Event,
    ToolCall,
    ToolReturned,
    ToolSpec,
    Turn,
    Usage,
    UserSaid,
)
from pytest_a2a_bench.model.messages import Bounds

GREETING = "Hi! How can I help you today?"
"""tau2's fixed first agent message, which the agent itself never said."""


def system_prompt(policy: str) -> str:
    """Return the system prompt of tau2's own ``llm_agent``: a policy in the installed tau2's frame.

    :raises ConfigurationError: if the installed tau2 has no such agent.
    """
    try:
        agent = importlib.import_module("tau2.agent.llm_agent").LLMAgent(tools=[], domain_policy=policy, llm="none")
        return "\n".join(message.content for message in agent.get_init_state().system_messages)
    except (ImportError, AttributeError, TypeError) as error:
        raise ConfigurationError(f"the installed tau2's llm_agent cannot tell its prompt: {error}") from error


def tool_specs(tools: Sequence[Any]) -> tuple[ToolSpec, ...]:
    """Describe tau2's tools by their OpenAI schemas."""
    return tuple(_spec_of(tool) for tool in tools)


_specs: weakref.WeakKeyDictionary[type[Any], ToolSpec] = weakref.WeakKeyDictionary()


def _spec_of(tool: Any) -> ToolSpec:
    # The class of its parameters is made for one tool, and lives as long as tau2 keeps that.
    found = _specs.get(tool.params)
    if found is None or found.name != tool.name:
        function = tool.openai_schema["function"]
        found = ToolSpec(function["name"], function.get("description", ""), function.get("parameters", {}))
        _specs[tool.params] = found
    return found


class Translator:
    """Translates between tau2's messages and the events of a conversation, as one side sees it.

    :param messages: the module of tau2's messages.
    :param own: the role of that side: ``assistant`` or ``user``.
    """

    def __init__(self, messages: Any, own: str) -> None:
        self._messages, self._own = messages, own
        self._names: dict[str, str] = {}

    def events(self, *messages: Any) -> list[Event]:
        """Return the events of messages that this side may see."""
        # Results of several calls come in one message, each with an id of its own.
        return [self._event(part) for each in messages for part in getattr(each, "tool_messages", None) or [each]]

    def _event(self, message: Any) -> Event:
        if message.role == "tool":
            # tau2's results do not say which tool they are of; the calls before them do.
            name = self._names.get(message.id, "")
            return ToolReturned(message.id, name, message.content or "", bool(message.error))
        if message.role != self._own:
            return UserSaid(message.content or "")
        calls = tuple(ToolCall(c.name, c.arguments, c.id) for c in message.tool_calls or ())
        self._names.update({c.id: c.name for c in calls})
        return AgentSaid(message.content if not calls else None, calls)

    def message(self, said: AgentSaid, usage: Usage) -> Any:
        """Return this side's reply as tau2's message."""
        self._names.update({c.id: c.name for c in said.calls})
        kind = self._messages.UserMessage if self._own == "user" else self._messages.AssistantMessage
        calls = [
            self._messages.ToolCall(id=c.id, name=c.name, arguments=dict(c.arguments), requestor=self._own)
            for c in said.calls
        ]
        return kind(
            role=self._own,
            # tau2 drops text that stands beside calls; it is among the reply's findings.
            content=said.text if not calls else None,
            # tau2 refuses an empty list here.
            tool_calls=calls or None,
            # Never None: tau2 adds the costs of all messages up.
            cost=usage.cost_usd or 0.0,
            usage=_to_tau2_usage(usage),
        )


@functools.cache
def agent_class(base: Any, messages: Any) -> Any:
    """Return the class of agents behind A2A for the installed flavour of tau2.

    :param base: the base class of its agents.
    :param messages: the module of its messages.
    """

    class A2AAgent(base):  # type: ignore[misc]
        """An agent that lives behind an A2A endpoint."""

        def __init__(self, tools: list[Any], domain_policy: str, conversation: Speaker) -> None:
            super().__init__(tools=tools, domain_policy=domain_policy)
            self.conversation = conversation
            self._translator = Translator(messages, "assistant")

        def get_init_state(self, message_history: list[Any] | None = None) -> Speaker:
            history = self._translator.events(*(message_history or ()))
            match history:
                case [AgentSaid(text=str(greeting), calls=())]:
                    self.conversation.open(greeting)
                case _:
                    self.conversation.events.extend(history)
            return self.conversation

        def generate_next_message(self, message: Any, state: Speaker) -> tuple[Any, Speaker]:
            said = self._defused(state.ask(self._translator.events(message)))
            return self._translator.message(said, state.last_usage), state

        def _defused(self, said: AgentSaid) -> AgentSaid:
            calls = tuple(map(defuse, said.calls))
            for call, harmless in zip(said.calls, calls, strict=True):
                if harmless != call:
                    self.conversation.note(_too_large(call))
            return AgentSaid(said.text, calls)

        def set_seed(self, seed: int) -> None:
            """Do nothing: the agent behind the endpoint decides about its own randomness."""

    return A2AAgent


def _too_large(call: ToolCall) -> DialectFinding:
    message = "this would be calculated for ever; the tool is called with an expression that it refuses instead"
    return DialectFinding("endless-calculation", message, str(call.arguments)[:2000])


def _to_tau2_usage(usage: Usage) -> dict[str, int] | None:
    if usage.input_tokens is None and usage.output_tokens is None:
        return None
    return {"prompt_tokens": usage.input_tokens or 0, "completion_tokens": usage.output_tokens or 0}


def make_agent(tau2: Tau2, tools: list[Any], policy: str, conversation: Speaker) -> Any:
    """Make an agent for tau2's ``Orchestrator``."""
    return agent_class(tau2.agent_base, tau2.messages)(tools, policy, conversation)


TOOL: Final = "calculate"
REFUSED: Final = "an expression whose value is too large"
"""The text in place of the expression; tau2's tool answers that it has invalid characters."""

_MAX_BITS: Final = 100_000
_MAX_LENGTH: Final = 10_000


def defuse(call: ToolCall) -> ToolCall:
    """Return a call; one of ``calculate`` that takes for ever has an expression that is refused in its place."""
    expression = call.arguments.get("expression") if call.name == TOOL else None
    if not isinstance(expression, str) or "**" not in expression or is_small(expression):
        return call
    return ToolCall(call.name, {**call.arguments, "expression": REFUSED}, call.id)


def is_small(expression: str) -> bool:
    """Return whether no intermediate value of an arithmetic expression needs more than some 100,000 bits.

    What is no expression is small: evaluating it fails at once.
    """
    if len(expression) > _MAX_LENGTH:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = parse_python(expression.strip(), "eval")
        return _bits(tree.body) <= _MAX_BITS
    except (OverflowError, RecursionError, MemoryError):
        return False
    except (SyntaxError, ValueError):
        return True


def _bits(node: ast.expr) -> float:
    """Return how many bits a value has at most.

    :raises OverflowError: if they, or those of a value on the way to it, are too many.
    """
    match node:
        case ast.Constant(value=int() | float() as value):
            return math.log2(abs(value)) if abs(value) > 1 else 0.0
        case ast.UnaryOp(operand=operand):
            return _bits(operand)
        case ast.BinOp(left=left, op=op, right=right):
            bits = _bits_of(op, _bits(left), _bits(right))
            if bits > _MAX_BITS:
                raise OverflowError
            return bits
    return 0.0


def _bits_of(op: ast.operator, left: float, right: float) -> float:
    match op:
        case ast.Pow():
            # A fraction to a negative power grows as well, but in floats, which have an end.
            return max(left, 1.0) * math.exp2(min(right, 64.0))
        case ast.Add() | ast.Sub():
            return max(left, right) + 1
        case ast.Mult():
            return left + right
    return max(left, right)


_HOW = """\
<how_this_conversation_reaches_you>
You are the customer, whatever the words below call you. What reaches you as the user's message is what the customer
service agent says to you; what you answer in plain text is said to that agent by the customer. Where the guidelines
tell you to write ###STOP###, ###TRANSFER### or ###OUT-OF-SCOPE###, write it in plain text: that ends the conversation.
</how_this_conversation_reaches_you>"""


def make_agent_user(
    tau2: Tau2, task: Any, tools: list[Any] | None, seat: Seat, before_turn: Callable[[], float], settings: Settings
) -> Any:
    """Make the user for tau2's ``Orchestrator``.

    :param tools: tau2's tools of the user; None where the domain gives it none.
    :param before_turn: called before each request; raises to stop the trial.
    """
    user = user_class(tau2.user_simulator, tau2.messages)(
        tools=tools, instructions=str(task.user_scenario), llm=seat.name
    )
    user.speak_in(seat, before_turn=before_turn, bounds=Bounds.of(settings.reply_limits))
    return user


@functools.cache
def user_class(simulator: Any, messages: Any) -> Any:
    """Return the class of users behind A2A for the installed flavour of tau2.

    :param simulator: tau2's simulated user, which has the same prompt and stops by the same words.
    :param messages: the module of its messages.
    """

    class A2AUser(simulator):  # type: ignore[misc]
        """A user that an agent behind an A2A endpoint plays."""

        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self._translator = Translator(messages, "user")

        def speak_in(self, seat: Seat, **how: Any) -> None:
            """Have everything that follows said by an agent.

            :param how: further members of :class:`Conversation`.
            """
            self.seat = seat
            briefing = Briefing(f"{self.system_prompt}\n\n{_HOW}", tool_specs(self.tools or ()))
            self.conversation = Conversation(session=seat.session, briefing=briefing, strict=True, **how)
            seat.conversations.append(self.conversation)

        def get_init_state(self, message_history: list[Any] | None = None) -> Conversation:
            """Begin, with the messages so far."""
            self.conversation.events.extend(self._translator.events(*(message_history or ())))
            return self.conversation

        def generate_next_message(self, message: Any, state: Conversation) -> tuple[Any, Conversation]:
            """Ask the agent for the user's next words, or calls of its own tools.

            :raises InfrastructureError: if it cannot be reached, gives up, or its answer cannot be read.
            """
            with blamed(self.seat):
                said = state.ask(self._translator.events(message))
            return self._translator.message(said, state.last_usage), state

        def set_seed(self, seed: int) -> None:
            """Do nothing: the agent behind the URL decides about its own randomness."""

    return A2AUser


def find_nonsense(seat: Seat, turns: Sequence[Turn], reason: str, max_errors: int) -> PartyError | None:
    """Return the error of the user's agent where it ended a conversation by an act, and not by a stop word.

    :param reason: how it ended, by tau2's name for it.
    """
    if reason == "user_error":
        return trouble(seat, "tau2 refused what it said")
    errors = [turn.requestor for turn in turns if turn.role == "tool" and turn.error]
    # tau2 counts the errors of both; without the user's the agent would have gone on.
    if reason == "too_many_errors" and errors.count("agent") < max_errors:
        return trouble(seat, f"{errors.count('user')} of its tool calls failed, which ended the conversation")
    return None
