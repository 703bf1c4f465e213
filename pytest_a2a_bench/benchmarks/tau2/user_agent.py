"""An A2A agent that plays the user of tau2 (``--a2a-user a2a:URL``): tau2's prompt for users, sent to an agent.

It hears the guidelines that tau2 gives to every simulated user and the task's scenario, is offered the user's own tools
where the domain has some, and ends the conversation as tau2's users do: with one of tau2's stop words.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from pytest_a2a_bench.benchmarks.base import Seat
from pytest_a2a_bench.benchmarks.conversation import Conversation
from pytest_a2a_bench.benchmarks.participants import blamed, trouble
from pytest_a2a_bench.benchmarks.tau2.agent import tool_specs
from pytest_a2a_bench.benchmarks.tau2.upstream import Tau2
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import PartyError
from pytest_a2a_bench.model import AgentSaid, Briefing, Event, ToolCall, ToolReturned, Turn, UserSaid
from pytest_a2a_bench.model.messages import Bounds

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
            self._names: dict[str, str] = {}

        def speak_in(self, seat: Seat, **how: Any) -> None:
            """Have everything that follows said by an agent.

            :param how: further members of :class:`Conversation`.
            """
            self.seat = seat
            briefing = Briefing(f"{self.system_prompt}\n\n{_HOW}", tool_specs(self.tools or ()))
            self.conversation = Conversation(session=seat.session, briefing=briefing, strict=True, **how)
            seat.conversations.append(self.conversation)

        def get_init_state(self, message_history: list[Any] | None = None) -> Conversation:
            """Begin, with what has been said before."""
            self.conversation.events.extend(event for m in message_history or () for event in self._events(m))
            return self.conversation

        def generate_next_message(self, message: Any, state: Conversation) -> tuple[Any, Conversation]:
            """Ask the agent what the user says, or does with its own tools.

            :raises InfrastructureError: if it cannot be reached, gives up, or answers what nobody can read.
            """
            with blamed(self.seat):
                said = state.ask(self._events(message))
            self._names.update({call.id: call.name for call in said.calls})
            usage = state.last_usage
            used = {"prompt_tokens": usage.input_tokens or 0, "completion_tokens": usage.output_tokens or 0}
            answer = messages.UserMessage(
                role="user",
                content=said.text if not said.calls else None,
                tool_calls=[_to_tau2(call) for call in said.calls] or None,
                # Never None: tau2 adds the costs of all messages up.
                cost=usage.cost_usd or 0.0,
                usage=used if usage.tokens is not None else None,
            )
            return answer, state

        def set_seed(self, seed: int) -> None:
            """Do nothing: the agent behind the URL decides about its own randomness."""

        def _events(self, message: Any) -> list[Event]:
            """Return a message of tau2's from the side of the user's agent, to which the agent under test speaks."""
            return [self._event(part) for part in getattr(message, "tool_messages", None) or [message]]

        def _event(self, message: Any) -> Event:
            if message.role == "tool":
                name = self._names.get(message.id, "")
                return ToolReturned(message.id, name, message.content or "", bool(message.error))
            if message.role == "assistant":
                return UserSaid(message.content or "")
            calls = tuple(ToolCall(c.name, c.arguments, c.id) for c in message.tool_calls or ())
            self._names.update({c.id: c.name for c in calls})
            return AgentSaid(message.content if not calls else None, calls)

    def _to_tau2(call: ToolCall) -> Any:
        return messages.ToolCall(id=call.id, name=call.name, arguments=dict(call.arguments), requestor="user")

    return A2AUser


def find_nonsense(seat: Seat, turns: Sequence[Turn], reason: str, max_errors: int) -> PartyError | None:
    """Say whether it was the user's agent that ended a conversation by what it did, and not by a stop word.

    :param reason: how it ended, by tau2's name for it.
    """
    if reason == "user_error":
        return trouble(seat, "tau2 refused what it said")
    errors = [turn.requestor for turn in turns if turn.role == "tool" and turn.error]
    # tau2 counts the errors of both; without the user's the agent would have gone on.
    if reason == "too_many_errors" and errors.count("agent") < max_errors:
        return trouble(seat, f"{errors.count('user')} of its tool calls failed, which ended the conversation")
    return None
