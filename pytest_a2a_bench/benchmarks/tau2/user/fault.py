"""Whether it was the user, and not the agent, that kept a conversation from a good end. Pure and deterministic.

A false accusation is worse than a miss: it excuses a bad agent. So nothing is said unless all of this holds, for a user
that ended a conversation which did not come to the reward:

- something that the task's golds want was not done yet (or not said yet), and nothing that they do not want was done;
- the agent had neither refused nor transferred, nor claimed to have done what it had not: a user that believes a lie
  is not to be blamed for leaving;
- the agent was not treading water: no text that it had said before, no long row of texts without an action;
- its last words wanted what this user could give: a yes to what the golds do, a fact that it knows, what it calls
  about, something on its phone, or patience;
- a user that says ``###STOP###`` did not decline: refusing an offer may be what its scenario tells it to do.

A user that goes on when all is done (``max_steps``) is at fault where the agent took its leave three times in a row.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_a2a_bench.benchmarks.tau2.user import decide, device
from pytest_a2a_bench.benchmarks.tau2.user.decide import Wish
from pytest_a2a_bench.benchmarks.tau2.user.scenario import Facts, Scenario, identifiers
from pytest_a2a_bench.benchmarks.tau2.user.understand import (
    CHANGED,
    NOT_POSSIBLE,
    PEOPLE,
    UNABLE,
    WHY_CALLED,
    Reading,
    bounded,
    joined,
    normal,
    plain,
    sentences,
)
from pytest_a2a_bench.model import ToolCall, Turn, UserFault
from pytest_a2a_bench.redact import one_line

TOKENS: Mapping[str, str] = {
    "###STOP###": "stopped-early",
    "###TRANSFER###": "left-for-transfer",
    "###OUT-OF-SCOPE###": "out-of-scope",
}
"""What a user of tau2's ends a conversation with, and what it did wrong if it should not have."""

MAX_TEXTS = 4
"""How many texts in a row an agent may need without doing anything; after more of them nobody must wait."""
FAREWELLS = 3
"""After how many farewells in a row a user should have gone."""

_SHOWN = 160

_NOT_OFFERED = (
    rf"not ({NOT_POSSIBLE}|available|offered|something)|(does|do|did|is|are) not (allow|permit|qualify|cover)\w*"
)
_REFUSED = re.compile(
    rf"\b({UNABLE}|will not be|impossible|unfortunately|{_NOT_OFFERED}|outside (of )?(my|what)|beyond my|no way to)\b",
    re.I,
)
# "This can not be undone" warns of what a confirmation does.
_WARNING = re.compile(
    r"\b(can not|unable to|will not be able to) (be )?(undo|revers|\w+ (\w+ ){0,3}(again|later|once))\w*", re.I
)
_HANDED_OVER = re.compile(
    rf"\b(transfer\w*|{PEOPLE}|manager|representative|escalat\w*|hand(ed|ing)? (you )?over)\b", re.I
)
_DEEDS = (
    rf"{CHANGED}|modified|refunded|processed|issued|added|removed|submitted|completed?|enabled|activated|resumed|done"
)
_SINCE = r"(ha(s|ve)|is|are|was|were|got|it|all)( (now|already|just|also|been|successfully|all))*"
_CLAIMED = re.compile(
    rf"\b{_SINCE} ({_DEEDS})\b|^\W*((all|it is) )?({_DEEDS})\b|\bsuccess(ful|fully)?\b|\ball set\b", re.I
)
_ASKING = re.compile(
    r"\b(provide|share|tell me|give me|send me|state|enter|may i have|need|verify|confirm|what|which)\b", re.I
)
_WAIT = re.compile(r"\b((one|a|just a) (moment|minute|second)|bear with|please (hold|wait|stand by)|hold on)\b", re.I)
_NO = (
    r"no|nope|not|never|nothing|none|nevermind|forget|instead|rather|declin\w*|refus\w*|enough|wrong|incorrect|mistake"
)
_ELSE = r"unless|but|however|human|manager|supervisor|someone|elsewhere|later|unacceptable|frustrat\w*|without"
_DECLINED = re.compile(rf"\b({_NO}|{_ELSE})\b", re.I)
_HARMLESS_NO = re.compile(r"\bno (problem|worries)\b|\bdo not (have|know|remember|recall)\b", re.I)
_YES = r"yes|yeah|yep|sure|ok(ay)?|correct|confirmed|please (do|proceed|go)|go ahead|sounds good|absolutely|of course"
_AGREED = re.compile(rf"^\W*({_YES})\b", re.I)


@dataclass(frozen=True, slots=True)
class Deed:
    """An action of a task's golds.

    :param compared: the arguments that must be as in the gold; None for all that were given.
    """

    name: str
    arguments: Mapping[str, Any]
    by_user: bool = False
    compared: tuple[str, ...] | None = None

    def is_met_by(self, call: ToolCall) -> bool:
        """Return whether a call does this, as upstream's evaluator compares them."""
        names = call.arguments.keys() if self.compared is None else self.compared
        wanted = {name: value for name, value in self.arguments.items() if name in names}
        return call.name == self.name and wanted == {n: v for n, v in call.arguments.items() if n in names}


@dataclass(frozen=True, slots=True)
class Goal:
    """What a task's user wants, and what it has for it.

    :param golds: what is to be done; those that only read are no part of what anybody wants.
    :param communicate: texts that the agent is to say.
    :param tools: names of the user's own tools.
    """

    scenario: Scenario
    golds: Sequence[Deed] = ()
    communicate: Sequence[str] = ()
    tools: Collection[str] = ()


def find_fault(turns: Sequence[Turn], reason: str, goal: Goal) -> UserFault | None:
    """Say what the user did wrong in a conversation that did not come to its reward.

    :param turns: all of it.
    :param reason: how it ended, by tau2's name for it.
    """
    if reason == "user_error":
        # tau2's orchestrator says this of nothing but the user's own messages.
        return UserFault("invalid-message", f"tau2 refused what the user sent: {_last_words(turns, 'user')}")
    course = _Course.of(turns, goal)
    if reason == "max_steps":
        return course.never_stopped()
    if reason != "user_stop" or not turns or turns[-1].role != "user":
        return None
    said = turns[-1].text or ""
    kind = next((kind for token, kind in TOKENS.items() if token in said), None)
    return course.left(kind, said) if kind is not None else None


@dataclass(frozen=True, slots=True)
class _Course:
    """What had happened when a conversation ended.

    :param texts: what the agent said in words.
    :param row: how many of the last of them came without anybody acting in between.
    :param undone: the golds that nobody has carried out.
    :param unsaid: the texts that the agent was to say and has not said.
    :param strange: whether the agent has changed something that no gold changes.
    :param early: texts in which the agent spoke before it had changed anything.
    :param last: the last text as the agent wrote it.
    """

    goal: Goal
    texts: tuple[str, ...]
    row: int
    undone: tuple[Deed, ...]
    unsaid: tuple[str, ...]
    strange: bool
    early: tuple[str, ...]
    last: str

    @classmethod
    def of(cls, turns: Sequence[Turn], goal: Goal) -> _Course:
        failed = {turn.call_id for turn in turns if turn.role == "tool" and turn.error}
        undone = [gold for gold in goal.golds if _changes(gold.name)]
        texts: list[str] = []
        early: list[str] = []
        row, strange, acted = 0, False, False
        for turn in turns:
            for call in turn.calls:
                met = next((g for g in undone if g.by_user == (turn.role == "user") and g.is_met_by(call)), None)
                if call.id in failed or not _changes(call.name):
                    continue
                acted = acted or turn.role == "agent"
                if met is not None:
                    undone.remove(met)
                elif turn.role == "agent":
                    strange = True
            if turn.role == "tool":
                row = 0
            elif turn.role == "agent" and turn.text:
                texts.append(normal(bounded(turn.text)))
                early += [] if acted else [texts[-1]]
                row += 1
        heard = "\n".join(texts).lower().replace(",", "")
        unsaid = tuple(text for text in goal.communicate if text.lower().replace(",", "") not in heard)
        return cls(goal, tuple(texts), row, tuple(undone), unsaid, strange, tuple(early), _last_words(turns, "agent"))

    def never_stopped(self) -> UserFault | None:
        """Say whether the user went on when everything was done and the agent had taken its leave."""
        last = self.texts[-FAREWELLS:]
        if self.strange or self.undone or self.unsaid or not (self.goal.golds or self.goal.communicate):
            return None
        if self.row < FAREWELLS or not all(Reading(text).closing for text in last):
            return None
        told = f"everything was done, the agent took its leave {FAREWELLS} times, and the user went on until max_steps"
        return UserFault("never-stopped", told)

    def left(self, kind: str, said: str) -> UserFault | None:
        """Say whether the user was wrong to end the conversation.

        :param said: its last words, with the token.
        """
        words = normal(bounded(re.sub("|".join(TOKENS), " ", said)))
        if not self.texts or not (self.undone or self.unsaid) or self._is_the_agents(kind):
            return None
        if kind == "stopped-early" and _DECLINED.search(_HARMLESS_NO.sub(" ", words)):
            return None
        wanted = self._wanted(agreed=_AGREED.search(words) is not None)
        if not wanted:
            return None
        missing = ", ".join(dict.fromkeys(g.name for g in self.undone)) or f"to say {self.unsaid[0]!r}"
        told = f"{missing} was still to do and the agent wanted {wanted} ({self.last})"
        return UserFault(kind, f"{told}; the user: {_quoted(said)}")

    def _is_the_agents(self, kind: str) -> bool:
        """Return whether anything that the agent did or said may be why the user left."""
        if self.strange or self.row > MAX_TEXTS:
            return True
        said = [plain(text) for text in self.texts]
        if said[-1] in said[:-1]:
            return True
        heard = "\n".join(self.texts)
        if _REFUSED.search(_WARNING.sub(" ", heard)) or _HANDED_OVER.search(heard):
            return True
        return any(map(_claims, self.early)) or any(self._is_a_lie(text) for text in self.texts)

    def _is_a_lie(self, text: str) -> bool:
        told = " ".join(s for s in sentences(text) if "?" not in s and _CLAIMED.search(s))
        return bool(told and decide.fulfilled(told, self._wishes))

    @property
    def _wishes(self) -> tuple[Wish, ...]:
        return decide.wishes([(gold.name, gold.arguments) for gold in self.undone if not gold.by_user])

    def _wanted(self, *, agreed: bool) -> str:
        """Return what the agent's last words wanted of the user that it could give; empty where that is nothing.

        :param agreed: whether the user said yes to it and left all the same.
        """
        text, facts = self.texts[-1], Facts(self.goal.scenario)
        asked = " ".join(
            s for s in sentences(joined(text)) if ("?" in s or _ASKING.search(s)) and not Reading(s).closing
        )
        offer = decide.judge(text, self._wishes) if self._wishes else None
        if offer is not None and not identifiers(text) and Reading(asked).facts:
            # "Which name is on the booking?" speaks of one and offers none.
            offer = None
        reading = Reading(asked, offer=offer is not None)
        if reading.decision and (offer is not None or agreed):
            if offer is None:
                return "a yes, and got it,"
            return f"a yes to {offer.wish.tool}" if offer.agreed and offer.wish is not None else ""
        acts = device.instructed(text, self.goal.tools, device.symptom_check(self.goal.scenario.reason))
        if acts:
            return f"{acts[0].name} of the user"
        # Not from the golds, of which a user that plays the scenario knows nothing.
        known = [slot for slot in reading.facts if facts.get(slot)]
        if known:
            return f"what the user knows: {', '.join(known)}"
        if WHY_CALLED.search(asked):
            return "to hear what the user calls about"
        # A second request for patience need not be granted.
        waits = _WAIT.search(text) and not any(map(_WAIT.search, self.texts[-self.row : -1]))
        return "a moment's patience" if waits and not Reading(text).closing else ""


def _changes(name: str) -> bool:
    # A transfer is an end, and a reason to leave; it changes nothing that the user wants changed.
    return bool(decide.wishes([(name, {})])) and not re.match(r"can_|run_|transfer", name)


def _claims(text: str) -> bool:
    return any("?" not in s and _CLAIMED.search(s) for s in sentences(text))


def _last_words(turns: Sequence[Turn], role: str) -> str:
    return _quoted(next((turn.text or "" for turn in reversed(turns) if turn.role == role), ""))


def _quoted(text: str) -> str:
    return repr(one_line(text, _SHOWN))
