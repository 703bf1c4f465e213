"""What the user does itself: the one thing on its phone for each instruction, and never what nobody asked for.

Other tools (apply for a card, submit a form) want arguments: those of the task's golds are given where the agent asks
for the deed and has said what of them the user cannot know.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_a2a_bench.benchmarks.tau2.user.understand import SWITCHES, TELLS, Clause, Mood, clauses

_ON = (
    r"(?<!tap )(?<!click )(?<!press )(?<!focus )(?<!based )(?<!work )(?<!move )(?<!check )(?<!later )(?<!depending )"
    r"\bon\b(?! (?:your|the|it|this|that|a|an|my|top|screen|settings|how|what|whether|to|its?|most|\")\b)"
    r"|\b(?:re-?)?(?:enabl|activat)\w*|\b(?:re-?)?connect(?:ing)?\b|\ballow\b|\bpermit\b"
    r"|\b(?:turn|switch|toggl|put|flip|pop)(?:ed|ing)? on\b"
)
_OFF = (
    r"\b(?:off|out|disabl\w*|de-?activat\w*|inactive|exit\w*|leav\w*|disconnect\w*|terminat\w*|kill\w*|drop\w*|"
    r"cut\w*|end\w*|clos\w*|quit\w*|stop\w*|shut\w*|sever\w*|unplug\w*|cancel\w*|get rid of|grey|gray|suspend\w*|"
    r"paus\w*|no longer|not(?: be| currently)? (?:connected|using|on|in|active|enabled))\b"
)
_LOOK = re.compile(
    rf"\b({TELLS}|read|peek|glance|show|view|find out|what|which|whether|if|how|examine|inspect|watch|observe|share|"
    r"list|name|telling|looking|checking|see[kn]|update me|give me|let me|reading)\b",
    re.I,
)
_EITHER = re.compile(r"\bon ?(?:/|or) ?off\b|\boff ?(?:/|or) ?on\b", re.I)
_TOUCHES = re.compile(
    rf"\W*(?:(?:{SWITCHES})\b|(?:tap|press|hit|click|touch)(?: on)? (?:it|that|the (?:[\w-]+ ){{0,3}}\w+)"
    r"(?: once)?\W*$)",
    re.I,
)
_PRONOUN = re.compile(r"\b(it|that|this|them|those|one|both)\b", re.I)
_HEAD = 4
"""Words that a clause's verb stands in: "have a quick look"."""
_SEES_TO_IT = re.compile(r"\W*see(?: to it)? that\b", re.I)
_KEEPS = re.compile(
    r"\W*(?:wait|keep|leave\b.* (?:as|on|off|alone|be|\w+ed)|us(?:e|ing)|hold|remember|ignore|contact|call|text|"
    r"reply|stay|be|mind|try|test|bear|get back|send|allow me|enjoy|have|let me|thank)\b",
    re.I,
)
_NAVIGATES = re.compile(
    r"^\W*(?:open|go|find|locate|navigate|head|scroll|visit|access|launch|enter|get|look for|tap|press|click|choose|"
    r"select|hit|touch|swipe|pull)\b(?! (?:off|out of)\b)",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Act:
    """A call of one of the user's tools.

    :param state: what a switch should show afterwards (``ON`` or ``OFF``), where the instruction says so.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    state: str = ""


@dataclass(frozen=True, slots=True)
class _Thing:
    """Something on a phone.

    :param words: how it is called.
    :param change: the tool that changes it.
    :param show: the tool that shows it.
    :param itself: whether naming it is naming the deed.
    """

    words: str
    change: str = ""
    show: str = ""
    itself: bool = False

    @property
    def is_switch(self) -> bool:
        """Whether it is on or off."""
        return self.change.startswith("toggle_")


_PHONE = r"(?:your |the |that |this )?(?:phone|device|handset|mobile|smartphone|it|everything)"

# In this order: what is more special comes first, and a clause is about the first that it names.
_THINGS: tuple[_Thing, ...] = (
    _Thing(rf"\bre-?boot|\brestart|\bpower[- ]cycl|\b(?:turn|switch|power|shut)\w* (?:{_PHONE} )?(?:off|"
           rf"down)(?: \w+)? and (?:then )?(?:(?:turn|switch|power|start)\w* )?(?:it )?(?:back )?(?:on|up)\b|"
           rf"\bstart {_PHONE} (?:new|fresh|over|up again|again|anew)|\bsoft reset\b",
           "reboot_device", itself=True),
    _Thing(r"\b(?:air ?plane|aeroplane|flight|plane|aircraft)s?[- ]?(?:mode|icon|symbol|button|tile)",
           "toggle_airplane_mode", "check_status_bar"),
    _Thing(r"\bdata[- ]?(?:sav(?:er|ing)|conserv)|\b(?:low|reduced) data mode",
           "toggle_data_saver_mode", "check_data_restriction_status"),
    _Thing(r"\broaming", "toggle_roaming", "check_network_status"),
    _Thing(r"\bwi-?fi[- ]?call|\bcall(?:s|ing) (?:over|via|through|by) wi-?fi",
           "toggle_wifi_calling", "check_wifi_calling_status"),
    _Thing(r"\bvpn|\bvirtual private", "vpn", "check_vpn_status"),
    _Thing(r"\bapns?\b|\baccess point", "reset_apn_settings", "check_apn_settings"),
    _Thing(r"\bnetwork[- ](?:mode|type|preference|selection|generation)|\b(?:preferred|mobile) network (?:mode|type)|"
           r"\bpreferred network|\bmode preference|\b[45]g\b|\blte\b",
           "network_mode", "check_network_mode_preference"),
    _Thing(r"(?<!your )\bpermission\b(?! to (?:proceed|go|do|continue|make))|\bpermissions\b|\b(?:storage|sms|"
           r"text) access|\b(?:storage|sms)\b.*\bapp\b|\bapp\b.*\b(?:storage|sms)\b|\baccess to (?:your |"
           r"the )?(?:storage|sms|text|file)|\b(?:allow|grant|give|let|permit)\w*\b.*\b(?:storage|sms|text)",
           "permission", "check_app_permissions"),
    _Thing(r"\bsim\b", "reseat_sim_card", "check_sim_status"),
    _Thing(r"\bspeed ?test|\binternet speed|\bhow fast|\bspeed of your|\bdata speed|\bconnection speed",
           show="run_speed_test"),
    _Thing(r"\b(?:mms|picture message|multimedia message|photo message)", show="can_send_mms"),
    _Thing(r"\binstalled apps|\bapps (?:are|do you have|you have) installed|\blist of apps",
           show="check_installed_apps"),
    _Thing(r"\bstatus[- ]?bar|\bsignal|\bbars\b|\bno service|(?<!from the )\b(?:top|upper) (?:of|edge|part|"
           r"corner|bar|right|left)\b|\b(?:bar|icons?|indicators?|symbols?|line)\b.*\btop\b",
           show="check_status_bar"),
    _Thing(r"\b(?:mobile|cellular|cell) (?:data|internet)\b|\bdata (?:connection|switch|toggle)\b|\byour data\b|"
           rf"\b(?:{SWITCHES}) (?:(?:on|off) )?data\b",
           "toggle_data", "check_network_status"),
    _Thing(r"\bwi-?fi", "toggle_wifi", "check_wifi_status"),
    _Thing(r"\bnetwork (?:status|connection)|\bconnected to (?:a|the|any) network", show="check_network_status"),
    _Thing(r"\bpayments?\b|\bbills?\b|\binvoice|\boverdue|\boutstanding|\bpay\b|\bsettle up\b",
           "make_payment", "check_payment_request"),
)  # fmt: skip
_HEARD = tuple(re.compile(thing.words, re.I) for thing in _THINGS)
_DEEDS = re.compile(
    r"\b(?:off|on|out|only|default|factory|re-?(?:set|stor|vert|seat|insert)\w*|(?:remov|tak|mak|chang|choos|enabl|"
    r"disabl|complet|approv)(?:e|ing)|(?:eject|pull|pop|set|switch|select|pick|put|tick|grant|allow|give|let|permit|"
    r"connect|disconnect|pay|settle|accept)(?:t?ing)?)\b",
    re.I,
)
"""What is done with things, where no verb tells to do it ("APN: reset to default") or where a way begins with one."""
_CALL = re.compile(r"\b([a-z]+(?:_[a-z]+)+)\s*\(([^()]*)\)")
_TOOL = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")
_WITH_ARGUMENTS = ("set_network_mode_preference", "grant_app_permission", "check_app_permissions", "check_app_status",
                   "set_apn_settings")  # fmt: skip
_PREFERRED = re.compile(r"\bprefer|\bnetwork[- ](?:mode|type)", re.I)
_MODES = (
    (r"5g", "4g_5g_preferred"),
    (r"4g|lte", "4g_only"),
    (r"3g", "3g_only"),
    (r"2g", "2g_only"),
)
_PERMISSIONS: Mapping[str, str] = {
    "storage": r"\bstorage\b|\bfiles\b",
    "sms": r"\bsms\b|\btext messag",
    "phone": r"\bphone permission|\bpermission (?:for|to) (?:the )?phone",
    "network": r"\bnetwork permission",
}
_WORKING = re.compile(
    r"\b(work(s|ing)?(?! for you)|fix(ed)?|solved?|resolved?|better|gone|improved?|(problem|issue) (persist|"
    r"remain)s?|any (change|difference)|go through|goes through)\b",
    re.IGNORECASE,
)
_VERB_OF_A_STATE = (
    r"(?:['\u2019]s|\b(?:is|are|was|were|has|have|had|can|could|may|might|will|would|does|did|"
    r"seems?|appears?|looks?|\w+s))\b"
)
_SYMPTOM_TOOLS = (
    (r"\bmms\b", "can_send_mms"),
    (r"mobile data|internet", "run_speed_test"),
    (r"no service|signal", "check_status_bar"),
)


def instructed(text: str, offered: Collection[str], symptom: str = "") -> tuple[Act, ...]:
    """Return what a text asks to be done or looked at, in its order, one act for each instruction.

    :param offered: names of the user's tools.
    :param symptom: the tool that shows whether the user's trouble is over.
    """
    calls = {m[1]: _arguments(m[2]) for m in _CALL.finditer(text)}
    acts = [act for _, _, found in _read(_CALL.sub(r"\1", text), symptom, calls) for act in found]
    return _once(acts, offered)


def _arguments(written: str) -> Mapping[str, Any]:
    """Read the arguments of a call that is written as text: names with values, or one object."""
    try:
        call = ast.parse(f"f({written})", mode="eval").body
        assert isinstance(call, ast.Call)
        whole = ast.literal_eval(call.args[0]) if call.args else {}
        return {**whole, **{str(k.arg): ast.literal_eval(k.value) for k in call.keywords}}
    except (SyntaxError, ValueError, TypeError):
        return {}


def left_open(text: str) -> bool:
    """Whether a text tells to do something with what a phone has, and in no clause what that is."""
    read = [(thing, clause, acts) for thing, clause, acts in _read(text) if thing is not None and thing.change]
    settled = {thing.change for thing, _, acts in read if thing is not None and acts}
    return any(
        thing is not None and thing.change not in settled and clause.mood is Mood.TOLD and not _leaves(clause.body)
        for thing, clause, _ in read
    )


def _read(
    text: str, symptom: str = "", calls: Mapping[str, Mapping[str, Any]] | None = None
) -> Iterator[tuple[_Thing | None, Clause, list[Act]]]:
    """Yield what the clauses of a text are about and what they ask for.

    :param calls: arguments of the tools that the text names.
    """
    thing: _Thing | None = None
    looking = False
    for clause in clauses(text):
        if clause.begins or clause.mood is not Mood.NAMED:
            # "Check what it is set to (4G, 5G)": what a sentence adds without a verb is looked at as well.
            looking = clause.mood is Mood.ASKED or (clause.mood is Mood.TOLD and _leaves(clause.body))
        if tools := _TOOL.findall(clause.body):
            if (clause.mood in (Mood.TOLD, Mood.NAMED) and not clause.question) or clause.addressed:
                yield None, clause, [Act(t, (calls or {}).get(t, {})) for t in tools]
            continue
        named = list(_named(clause))
        for each in named:
            yield each, clause, _acts(each, clause, text, looking=looking)
        if named:
            thing = named[0]
        elif thing is not None and (_PRONOUN.search(clause.body) or _bare(clause, thing)):
            # "Is airplane mode on? If so, turn it off."
            yield thing, clause, [a for a in _acts(thing, clause, text, looking=looking) if a.name != thing.show]
        elif clause.question and symptom and _WORKING.search(clause.body):
            yield None, clause, [Act(symptom)]


def _leaves(body: str) -> bool:
    """Whether what is told leaves everything as it is: it looks, or waits, or talks."""
    head = " ".join(body.split()[:_HEAD])
    return bool((_LOOK.search(head) and not _SEES_TO_IT.match(body)) or _KEEPS.match(body))


def _once(acts: list[Act], offered: Collection[str]) -> tuple[Act, ...]:
    kept: list[Act] = []
    for act in acts:
        # The way to a switch names it, too: what says how it shall stand says more.
        told_better = not act.state and any(a.name == act.name and a.state for a in acts)
        unsaid = act.name in _WITH_ARGUMENTS and not act.arguments
        if act.name in offered and act not in kept and not told_better and not unsaid:
            kept.append(act)
    return tuple(kept)


def _named(clause: Clause) -> Iterator[_Thing]:
    """Yield the things that a clause is about: the first that it names, and what it adds to it."""
    for body in (clause.body, *reversed(clause.menus)):
        found = sorted(
            ((m.start(), m.end(), n) for n, words in enumerate(_HEARD) if (m := words.search(body))),
            key=lambda f: f[2],
        )
        if not found:
            continue
        _, end, first = found[0]
        yield _THINGS[first]
        for start, after, n in sorted(found[1:]):
            if re.fullmatch(r"\w*\W*(?:,|and|as well as|plus|&|\+|/)+\W*(?:your|the)?\W*", body[end:start], re.I):
                yield _THINGS[n]
                end = after
        return


def _bare(clause: Clause, thing: _Thing) -> bool:
    """Whether a clause says what to do and not with what: "Tap Disconnect.", "Toggle OFF"."""
    if clause.mood is Mood.STATED:
        return False
    if thing.change and not thing.is_switch and not thing.itself:
        return bool(_DEEDS.search(clause.body)) and len(clause.body.split()) < 7
    rest = re.sub(rf"{_ON}|{_OFF}|\b(?:{SWITCHES}|tap|press|set|slide|put|the|to|button|slider|option|position|"
    r"feature|setting|function|back|again|now|and|for|me)\b", " ", clause.body, flags=re.I)  # fmt: skip
    return not re.search(r"\w", rest) and rest != clause.body


def _acts(thing: _Thing, clause: Clause, text: str, *, looking: bool) -> list[Act]:
    mood = clause.mood
    begins = re.match(rf"\W*(?:(?:your|the|my|any) )?(?:{thing.words})", clause.body, re.I)
    if mood is Mood.TOLD and not clause.addressed and begins and not thing.itself and not _DEEDS.search(begins[0]):
        # It begins with a name and no verb: "Roaming is a setting" states, "Roaming on" wants it.
        mood = _mood_of_named(clause.body[begins.end() :])
    if mood is Mood.STATED:
        return []
    looked_for = mood is Mood.ASKED or (mood is Mood.NAMED and (clause.question or looking))
    looks = looked_for or bool(_LOOK.search(clause.body))
    if thing.change and not looked_for and not (mood is Mood.TOLD and _leaves(clause.body)):
        told = mood is Mood.TOLD and not _NAVIGATES.match(clause.body)
        changed = _changes(thing, clause, text, looks=looks, told=told)
        if changed:
            return changed
    if not thing.show or (not looks and (mood is Mood.NAMED or thing.change)):
        return []
    if thing.show == "check_app_permissions":
        return [Act(thing.show, {"app_name": _app(text)})]
    return [Act(thing.show)]


def _mood_of_named(rest: str) -> Mood:
    if re.search(r"\b(?:must|should|has|have|needs?|ought|got)\b.*\b(?:be|to)\b|\bneeds\b", rest, re.I):
        return Mood.TOLD
    return Mood.STATED if re.match(rf"\W*(?:\w+ )??{_VERB_OF_A_STATE}", rest, re.I) else Mood.NAMED


def _changes(thing: _Thing, clause: Clause, text: str, *, looks: bool, told: bool) -> list[Act]:
    """Return the changes that a clause asks for.

    :param told: it can mean nothing but a change, whatever its verb.
    """
    body = _EITHER.sub(" ", clause.body)
    # A mode that is named is the deed.
    named = thing.itself or (thing.change == "network_mode" and _mode(body) and _PREFERRED.search(text))
    if not (told or thing.is_switch or named or _DEEDS.search(body)):
        return []
    last_off = max((m.start() for m in re.finditer(_OFF, body, re.I)), default=-1)
    last_on = max((m.start() for m in re.finditer(_ON, body, re.I)), default=-1)
    if thing.change == "vpn":
        return [Act("connect_vpn" if last_on > last_off else "disconnect_vpn")]
    if thing.change == "network_mode":
        mode = _mode(body) or ("" if _NAVIGATES.match(body) else _mode(text))
        return [Act("set_network_mode_preference", {"mode": mode})] if mode and not looks else []
    if thing.change == "permission":
        wanted = _permissions(body) or _permissions(text)
        return [Act("grant_app_permission", {"app_name": _app(text), "permission": p}) for p in wanted]
    if not thing.is_switch:
        return [Act(thing.change)]
    if last_off < 0 and last_on < 0:
        return [Act(thing.change)] if _TOUCHES.match(body) else []
    if (
        looks
        and not _SEES_TO_IT.match(body)
        and not re.search(rf"\b(?:{SWITCHES}|set|put|enable|disable|activate|deactivate)\b", body, re.I)
    ):
        return []
    if last_off >= 0 and last_on >= 0:
        # "Off and on again": both, in this order.
        order = ("OFF", "ON") if last_off < last_on else ("ON", "OFF")
        return [Act(thing.change, {}, state) for state in order]
    return [Act(thing.change, {}, "OFF" if last_off >= 0 else "ON")]


def _mode(text: str) -> str:
    return next((mode for pattern, mode in _MODES if re.search(pattern, text, re.I)), "")


def _permissions(text: str) -> list[str]:
    return [name for name, pattern in _PERMISSIONS.items() if re.search(pattern, text, re.I)]


def _app(text: str) -> str:
    named = re.search(r"\b(messaging|browser|camera|social\w*|maps?)\b", text, re.I)
    return named[1].lower() if named else "messaging"


def contradicts(act: Act, result: str) -> bool:
    """Whether a switch ended up as nobody wanted it: it was as wanted before it was touched."""
    shown = re.search(r"\bnow (ON|OFF)\b", result, re.I)
    return bool(act.state and shown and shown[1].upper() != act.state)


def symptom_check(reason: str) -> str:
    """Return the tool that shows whether the trouble that the user calls about is over."""
    return next((tool for pattern, tool in _SYMPTOM_TOOLS if re.search(pattern, reason, re.I)), "")


def cured(tool: str, result: str) -> bool:
    """Whether a symptom's tool shows that the trouble is over."""
    if tool == "can_send_mms":
        return "can send" in result
    if tool == "run_speed_test":
        return "excellent" in result.lower()
    return tool == "check_status_bar" and "No Signal" not in result and "Airplane Mode" not in result


_DISCOVERED = "discoverable_tool_name"
_STEM = 5
_SHORT = 3


def own_deeds(actions: Sequence[tuple[str, Mapping[str, Any]]], tools: Collection[str]) -> list[Act]:
    """Return the user's golds, where the user has no phone: what is done with that is told by the agent."""
    phone = "check_status_bar" in tools
    return [Act(name, dict(arguments)) for name, arguments in actions if name in tools and not phone]


def asked_for(text: str, deeds: Sequence[Act], known: str) -> tuple[Act, ...]:
    """Return those deeds that a text of the agent's asks for, equal ones once: who wants it again says so again.

    :param known: all that the user knows itself.
    """
    said, own = _flat(text), _flat(known)
    asked = [d for d in deeds if _names(d, said) and all(v in said or v in own for v in _values(d.arguments))]
    return tuple(deed for place, deed in enumerate(asked) if deed not in asked[:place])


def _names(deed: Act, said: str) -> bool:
    """Whether a text speaks of a tool, by its name or by the words that the name is made of."""
    name = str(deed.arguments.get(_DISCOVERED, deed.name))
    words = [word for word in name.lower().split("_") if len(word) > _SHORT and not word.isdigit()]
    return name.lower() in said or all(word[:_STEM] in said for word in words)


def _values(arguments: Any) -> Iterator[str]:
    """Yield what somebody must have said, in the form of :func:`_flat`: no names of arguments, no yes or no."""
    if isinstance(arguments, Mapping):
        for name, value in arguments.items():
            if name != _DISCOVERED:
                yield from _values(value)
    elif isinstance(arguments, list):
        for value in arguments:
            yield from _values(value)
    elif isinstance(arguments, str) and arguments.lstrip().startswith(("{", "[")):
        yield from _values(_json(arguments))
    elif isinstance(arguments, float) and arguments.is_integer():
        yield str(int(arguments))
    elif arguments is not None and not isinstance(arguments, bool):
        yield _flat(str(arguments))


def _json(text: str) -> Any:
    # Arguments of a tool that was unlocked are JSON in a text.
    try:
        return json.loads(text)
    except ValueError:
        return None


def _flat(text: str) -> str:
    """Return a text in small letters, with single spaces and numbers without separators."""
    return " ".join(re.sub(r"(?<=\d),(?=\d{3})|[$*`]", "", text.lower()).split())
