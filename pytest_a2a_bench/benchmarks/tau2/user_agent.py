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
from pytest_a2a_bench.benchmarks.tau2.agent import Translator, tool_specs
from pytest_a2a_bench.benchmarks.tau2.upstream import Tau2
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import PartyError
from pytest_a2a_bench.model import Briefing, Turn
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
            """Begin, with what has been said before."""
            self.conversation.events.extend(self._translator.events(*(message_history or ())))
            return self.conversation

        def generate_next_message(self, message: Any, state: Conversation) -> tuple[Any, Conversation]:
            """Ask the agent what the user says, or does with its own tools.

            :raises InfrastructureError: if it cannot be reached, gives up, or answers what nobody can read.
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
