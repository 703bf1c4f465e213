"""The one thing to do on one's device for each instruction of the agent, and never what nobody asked for."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

_ON = re.compile(r"\b(on|enable|activate|allow|grant|reconnect)\b", re.I)
_OFF = re.compile(r"\b(off|disable|deactivate|exit|leave|disconnect|out of|stop using)\b", re.I)
_SWITCH = r"\b(turn|switch|toggle|flip|tap|enable|disable|activate|deactivate|exit|leave|take|put|set|stop using)\b"


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
    """Something on a phone: how it is called, what changes it, what shows it."""

    words: str
    change: str = ""
    changes: str = _SWITCH
    show: str = ""


# In this order: what is more special comes first, and each part of a sentence is about the first that it names.
_THINGS: tuple[_Thing, ...] = (
    _Thing(r"\b(airplane|aeroplane|flight|plane) mode", "toggle_airplane_mode", show="check_status_bar"),
    _Thing(r"\bdata[- ]?sav(er|ing)", "toggle_data_saver_mode", show="check_data_restriction_status"),
    _Thing(r"\broaming", "toggle_roaming", show="check_network_status"),
    _Thing(r"\bwi-?fi[- ]?calling|\bcalling over wi-?fi|\bcalls over wi-?fi", "toggle_wifi_calling",
           show="check_wifi_calling_status"),
    _Thing(r"\bwi-?fi", "toggle_wifi", show="check_wifi_status"),
    _Thing(r"\bvpn|\bvirtual private", "vpn", r"\b(disconnect|connect|reconnect)\b|" + _SWITCH, "check_vpn_status"),
    _Thing(r"\bapn|\baccess point", "reset_apn_settings", r"\b(reset|restore|default|revert)\b", "check_apn_settings"),
    _Thing(r"\bnetwork[- ](mode|type|preference)|\bpreferred network|\bmode preference|\b[45]g\b", "network_mode",
           r"\b(set|change|switch|select|choose|pick|put|update|use|move)\b", "check_network_mode_preference"),
    _Thing(r"\bpermissions?|\baccess to\b|\b(storage|sms) access", "permission",
           r"\b(grant|allow|give|enable|turn on|switch on|let)\b", "check_app_permissions"),
    _Thing(r"\bsim\b", "reseat_sim_card",
           r"\b(re-?seat|re-?insert|remove|take|pull|eject|pop)\b", "check_sim_status"),
    _Thing(r"\bspeed ?test|\binternet speed|\bhow fast|\bspeed of your|\bdata speed", show="run_speed_test"),
    _Thing(r"\b(mms|picture message|multimedia message|photo message)", show="can_send_mms"),
    _Thing(r"\binstalled apps|\bapps (are|do you have|you have) installed|\blist of apps", show="check_installed_apps"),
    _Thing(r"\bstatus bar|\bsignal|\bbars\b|\btop of (your|the) (screen|phone)|\bno service", show="check_status_bar"),
    _Thing(r"\b(mobile|cellular|cell) data\b|\bdata (connection|switch|toggle)\b", "toggle_data",
           show="check_network_status"),
    _Thing(r"\bnetwork (status|connection)|\bconnected to (a|the|any) network", show="check_network_status"),
    _Thing(r"\b(pay(ing)?|settle|accept|make|complete|approve|go through with)\b[^.?]*\b(bill|payment|"
        r"request|it|overdue)"
           r"|\bpayment request|\bpay now", "make_payment", r"\b(pay|settle|accept|make|complete|approve|"
           r"go through with)\b",
           "check_payment_request"),
    _Thing(r"\bre-?boot|\brestart|\bpower[- ]cycle|\b(turn|switch|power)\w* (your |the )?(phone|device|it)? ?off and "
           r"(then )?(back )?on", "reboot_device",
           r"\b(re-?boot|restart|power[- ]cycle|(turn|switch|power)\w*)\b"),
)  # fmt: skip
_ADDRESSED = re.compile(
    r"^\W*(?:(?:ok(ay)?|great|thanks?( you)?|now|next|then|first(ly)?|second(ly)?|third(ly)?|finally|lastly|"
    r"after that|and|"
    r"so|also|alright|perfect|good|"
    r"please|kindly|just|go ahead and|let's|let us|try( to| and)?|step \d+|\d+[.):]|once (more|again)|"
    r"(?:would|do) you mind|(?:could|can|would|will) you(?: please| kindly| now| just| also| go ahead and)*|"
    r"you(?:['\u2019]ll| will)? (?:should|need to|have to|must|can|could|may)(?: now| also)?|"
    r"(?:i(?:['\u2019]d| would)? (?:like|want|need)|i am asking|i['\u2019]m asking|may i ask|i(['\u2019]ll|"
    r" will) (need|ask)) "
    r"you to(?: please| now)?|i(?:['\u2019]d| would)? (?:like|want|need) to (?=know|see|hear)|make sure (to|"
    r"you)|be so kind (as )?to|"
    r"it(?:['\u2019]s| is) time to|the next (?:thing|step) is to|"
    r"what (?:you|i)(?:['\u2019]d| would)? (?:need|like|want)(?: you)? (?:to do )?is(?: for you)?(?: to)?|"
    r"in (?:your |the )?[\w' ]*settings|on your (?:phone|device)|from your (?:phone|device)|"
    r"when you(?:['\u2019]re| are) ready)\b[\s,:;.-]*)*",
    re.IGNORECASE,
)
_FIRST_WORD = re.compile(
    r"^(turn(ing)?|switch(ing)?|toggl(e|ing)|flip|tap|enabl(e|ing)|disabl(e|ing)|activate|deactivate|exit|leave|take|put|set|"
    r"disconnect(ing)?|connect|reconnect|reset(ting)?|restore|revert|change|select|choose|pick|update|use|move|grant(ing)?|"
    r"allow|give|let|re-?seat(ing)?|re-?insert|remove|pull|eject|pop|pay(ing)?|settle|accept|make|complete|approve|go|"
    r"re-?boot(ing)?|restart(ing)?|power|get|stop|do|bring|open|have|perform|ensure)\b",
    re.IGNORECASE,
)
_LOOKING = re.compile(
    r"\b(check|look|see|tell me|know|what|whether|which|show|open|run|test|try|read|verify|confirm|report|"
    r"do|is|are|can you|"
    r"does|perform|how|attempt|send(ing)?|let me know|have)\b",
    re.IGNORECASE,
)
_TELLS = re.compile(
    r"^\W*(i|we|it|this|that|your|the|there|since|because|as|mms|data|roaming)(['\u2019]\w+)?\b(?!.*\?)", re.I
)
_NOT = re.compile(r"\b(do not|don['\u2019]t|never|no need to|without|instead of|not necessary)\b", re.I)
_ASIDES = re.compile(
    r"[,:;\u2013\u2014]\s+|\s-\s|\bplease\b|\b(?:could|can|would|will) you\b|"
    r"\byou(?:['\u2019]ll)? (?:should|must|need to|have to|"
    r"want to|might want to)\b|\b(?:sure|like|need|want|ask|asking|for) you to\b|\b(?:make sure|try|"
    r"remember|is|helps?|best|"
    r"you) to\b",
    re.IGNORECASE,
)
_MINE = re.compile(
    r"\b((if|when|once) i|that i (should|can|could|may|might)|i should|me to|(shall|should|can|may|"
    r"could) (i|we)|i (can|will|would|could)|i['\u2019](ll|d)(?! (like|want|need) (to (know|see|hear)|you)))\b",
    re.I,
)
_MODES = (
    (r"5g", "4g_5g_preferred"),
    (r"4g|lte", "4g_only"),
    (r"3g", "3g_only"),
    (r"2g", "2g_only"),
)
_PERMISSIONS = ("storage", "sms", "phone", "network")
_WORKING = re.compile(
    r"\b(work(s|ing)?(?! for you)|fix(ed)?|solved?|resolved?|better|gone|improved?|(problem|issue) (persist|"
    r"remain)s?|any (change|"
    r"difference)|go through|goes through)\b",
    re.IGNORECASE,
)


def instructed(text: str, offered: Collection[str], symptom: str = "") -> tuple[Act, ...]:
    """Return what a text asks to be done or looked at, in its order, one act for each instruction.

    :param offered: names of the user's tools.
    :param symptom: the tool that shows whether the user's trouble is over.
    """
    acts: list[Act] = []
    thing: _Thing | None = None
    for clause in _clauses(text):
        named = next((t for t in _THINGS if re.search(t.words, clause, re.I)), None)
        if named is None and re.search(r"\b(it|that|them)\b", clause, re.I) and thing is not None:
            # "Is airplane mode on? If so, turn it off."
            acts += [a for a in _acts(thing, clause) if a.name != thing.show]
        elif named is not None:
            thing = named
            acts += _acts(named, clause)
        elif "?" in clause and symptom and _WORKING.search(clause) and not _NOT.search(clause):
            acts.append(Act(symptom))
    for name in offered:
        if name in text and not any(a.name == name for a in acts) and "_" in name and not _takes_arguments(name):
            acts.append(Act(name))
    return _once(acts, offered)


def _once(acts: list[Act], offered: Collection[str]) -> tuple[Act, ...]:
    kept: list[Act] = []
    for act in acts:
        if act.name in offered and act not in kept:
            kept.append(act)
    return tuple(kept)


def _takes_arguments(name: str) -> bool:
    return name in ("set_network_mode_preference", "grant_app_permission", "check_app_permissions", "check_app_status",
                    "set_apn_settings")  # fmt: skip


def _clauses(text: str) -> Iterator[str]:
    joined = re.sub(r"\n\s*(?:[-*\u2022]|\d+[.)])\s*", "\n", text)
    for sentence in re.split(r"(?<=[.!?;])\s+|\n+", joined):
        # "reset X and restart": two instructions; "off and on again" and "remove and reinsert" are one.
        parts = re.split(
            r",? (?:and then|then|and afterwards|and after that|and|before you|after that),? "
            r"(?=(?:please |also |finally )*(?:tell|turn|switch|toggle|enable|disable|reset|re-?boot|"
            r"restart|check|run|grant|"
            r"allow|disconnect|set|re-?seat|remove|try|look|pay|send|make)\b)(?!turn (?:it |them )?back)",
            sentence,
        )
        question = sentence.rstrip().endswith("?")
        yield from (p if not question or p.endswith("?") else f"{p}?" for p in parts)


def _acts(thing: _Thing, clause: str) -> list[Act]:
    if _NOT.search(clause) or (_MINE.search(clause) and not re.search(r"\byou(rself)? to\b|\bask you\b", clause, re.I)):
        return []
    condition = re.match(r"^\W*if\b[^,]*,\s*", clause, re.I)
    body = clause[condition.end() :] if condition else clause
    # A change is told: its verb comes first, whatever reasons and politeness stand before it.
    for rest in _beginnings(body):
        told = _base(rest)
        if thing.change and _FIRST_WORD.match(rest) and re.search(thing.changes, told, re.I):
            return _changes(thing, told)
    rest = next(_beginnings(body))
    if not thing.show or _TELLS.search(rest) or not ("?" in body or _LOOKING.match(rest) or _looks(rest)):
        return []
    if thing.show == "check_app_permissions":
        return [Act(thing.show, {"app_name": _app(clause)})]
    return [Act(thing.show)]


def _beginnings(body: str) -> Iterator[str]:
    """Yield where a clause may begin to tell somebody something: at first, after commas, after addressing somebody."""
    places = [0, *(m.end() for m in _ASIDES.finditer(body))]
    for place in places:
        start = _ADDRESSED.match(body[place:])
        yield body[place + start.end() :] if start else body[place:]


def _looks(rest: str) -> bool:
    return bool(_FIRST_WORD.match(rest) and _LOOKING.search(rest))


def _base(clause: str) -> str:
    """Return a clause with its leading verb as one tells somebody to do it ("mind turning off": "turn off")."""
    return re.sub(
        r"^(turn|switch|disconnect|reset|grant|re-?seat|pay|re-?boot|restart)(?:t)?ing\b", r"\1", clause, flags=re.I
    )


def _changes(thing: _Thing, clause: str) -> list[Act]:
    off, on = _OFF.search(clause), _ON.search(clause)
    state = "OFF" if off and not on else "ON" if on and not off else ""
    if thing.change == "vpn":
        return [
            Act("disconnect_vpn" if off or not re.search(r"\b(connect|on|enable)\b", clause, re.I) else "connect_vpn")
        ]
    if thing.change == "network_mode":
        mode = next((m for pattern, m in _MODES if re.search(pattern, clause, re.I)), "")
        return [Act("set_network_mode_preference", {"mode": mode})] if mode else []
    if thing.change == "permission":
        wanted = [p for p in _PERMISSIONS if re.search(rf"\b{p}\b", clause, re.I)]
        if "sms" not in wanted and re.search(r"text message", clause, re.I):
            wanted.append("sms")
        return [Act("grant_app_permission", {"app_name": _app(clause), "permission": p}) for p in wanted]
    return [Act(thing.change, {}, state if thing.change.startswith("toggle_") else "")]


def _app(clause: str) -> str:
    named = re.search(r"\b(messaging|browser|camera|social\w*|maps?)\b", clause, re.I)
    return named[1].lower() if named else "messaging"


def contradicts(act: Act, result: str) -> bool:
    """Whether a switch ended up as nobody wanted it: it was as wanted before it was touched."""
    shown = re.search(r"\bnow (ON|OFF)\b", result, re.I)
    return bool(act.state and shown and shown[1].upper() != act.state)


def symptom_check(reason: str) -> str:
    """Return the tool that shows whether the trouble that the user calls about is over."""
    for pattern, tool in ((r"\bmms\b", "can_send_mms"), (r"mobile data|internet", "run_speed_test"),
                          (r"no service|signal", "check_status_bar")):  # fmt: skip
        if re.search(pattern, reason, re.I):
            return tool
    return ""


def cured(tool: str, result: str) -> bool:
    """Whether a symptom's tool shows that the trouble is over."""
    if tool == "can_send_mms":
        return "can send" in result
    if tool == "run_speed_test":
        return "excellent" in result.lower()
    return tool == "check_status_bar" and "No Signal" not in result and "Airplane Mode" not in result
