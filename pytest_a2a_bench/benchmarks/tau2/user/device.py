"""Find the user's own actions: one on its phone for each instruction, and none that was not asked for.

Other tools (apply for a card, submit a form) take arguments: the task's golds have them, and the user calls such a tool
when the agent asks for it and has named every argument that the user cannot know.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_a2a_bench.benchmarks.tau2.user.understand import SWITCHES, TELLS, Clause, Mood, clauses, normal
from pytest_a2a_bench.dialects.serialization import parse_python

_ON_ELSE = "".join(rf"(?<!\b{verb} )" for verb in "tap click press focus based work move check later depending".split())
_ON_WHAT = r"your|the|it|this|that|an?|my|top|screen|settings|how|what|whether|to|its?|most"
_ON_VERBS = rf"(?:re-?)?(?:enabl|activat)\w*|(?:re-?)?connect(?:ing)?|allow|(?:{SWITCHES}|put)(?:ed|ing)? on"
_ON = re.compile(rf"{_ON_ELSE}\bon\b(?! (?:{_ON_WHAT})\b)|\b(?:{_ON_VERBS})\b", re.I)
_OFF_STEMS = (
    r"disabl|de-?activat|exit|leav|disconnect|terminat|kill|cut|end|clos|quit|stop|shut|suspend|paus|cancel|grey"
)
_NOT_ON = r"no longer|not(?: be| currently)? (?:connected|using|on|in|active|enabled)"
_OFF = re.compile(rf"\b(?:off|out|inactive|(?:{_OFF_STEMS})\w*|get rid of|{_NOT_ON})\b", re.I)
_EITHER = re.compile(r"\bon ?(?:/|or) ?off\b|\boff ?(?:/|or) ?on\b", re.I)
_LOOK = re.compile(
    rf"\b({TELLS}|read\w*|glance|show|view|what|which|whether|if|how|examine|inspect|watch|list|name|\w+ing at|see[kn]|"
    r"let me|give me|telling|looking|checking)\b",
    re.I,
)
_TOUCHES = re.compile(rf"\W*(?:(?:{SWITCHES})\b|(?:tap|press)(?: on)? (?:it|that|the (?:[\w-]+ ){{0,3}}\w+)\W*$)", re.I)
_PRONOUN = re.compile(r"\b(it|that|this|them|those|one|both)\b", re.I)
_HEAD = 4
"""Words that a clause's verb stands in: "have a quick look"."""
_SEES_TO_IT = re.compile(r"\W*see(?: to it)? that\b", re.I)
_KEEP = (
    r"wait|keep|leave\b.* (?:as|on|off|alone|be|\w+ed)|us(?:e|ing)|hold|remember|ignore|contact|call|text|reply|stay"
)
_KEEPS = re.compile(rf"\W*(?:{_KEEP}|be|mind|try|test|bear|get back|send|allow me|enjoy|have|let me|thank)\b", re.I)
_GO = (
    r"open|go|find|locate|navigate|head|scroll|visit|access|launch|enter|get|look for|tap|press|click|select|swipe|pull"
)
_NAVIGATES = re.compile(rf"^\W*(?:{_GO})\b(?! (?:off|out of)\b)", re.I)


@dataclass(frozen=True, slots=True)
class Act:
    """A call of one of the user's tools.

    :param state: the wanted state of a switch (``ON`` or ``OFF``), where the instruction says so.
    :param first_look: a look at a switch before it is touched.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    state: str = ""
    first_look: bool = False


@dataclass(frozen=True, slots=True)
class _Thing:
    """Something on a phone.

    :param words: how it is called.
    :param change: the tool that changes it.
    :param show: the tool that shows it.
    """

    words: re.Pattern[str]
    change: str = ""
    show: str = ""

    @property
    def is_switch(self) -> bool:
        """Return whether it is on or off."""
        return self.change.startswith("toggle_")

    @property
    def itself(self) -> bool:
        """Return whether naming it is naming the step."""
        return self.change == "reboot_device"


_IT = r"(?:(?:your |the |that |this )?(?:phone|device|handset|mobile|smartphone|it|everything) )?"
_BACK_ON = r"(?: \w+)? and (?:then )?(?:(?:turn|switch|power|start)\w* )?(?:it )?(?:back )?(?:on|up)\b"
_REBOOT = rf"\bre-?boot|\brestart|\bpower[- ]cycl|\b(?:turn|switch|power|shut)\w* {_IT}(?:off|down){_BACK_ON}"
_MODE = r"\bnetwork[- ](?:mode|type|preference)|\b(?:preferred|mobile) network\b|\bmode preference|\b[45]g\b|\blte\b"
_APP = (
    r"\b(?:storage|sms)\b.*\bapp\b|\bapp\b.*\b(?:storage|sms)\b|\b(?:allow|grant|give|let)\w*\b.*\b(?:storage|sms|text)"
)
_PERMISSION = rf"\bpermission\b(?! to (?:proceed|go|do))|\bpermissions\b|\b(?:storage|sms|text) access|{_APP}"
_BAR = r"\bstatus[- ]?bar|\bsignal|\bbars\b|\bno service|(?<!from the )\b(?:top|upper) (?:of|edge|part|corner)\b"
_DATA = (
    rf"\b(?:(?:mobile|cell\w*) (?:data|internet)|your data|data (?:connection|switch)|(?:{SWITCHES}) (?:on )?data)\b"
)
_PAY = r"\bpayments?\b|\bbills?\b|\binvoice|\boverdue|\boutstanding|\bpay\b|\bsettle up\b"

# In this order: what is more special comes first, and a clause is about the first that it names.
_THINGS: tuple[_Thing, ...] = tuple(
    _Thing(re.compile(words, re.I), change, show)
    for words, change, show in (
        (_REBOOT, "reboot_device", ""),
        (
            r"\b(?:air ?plane|flight|plane|aircraft)s?[- ]?(?:mode|icon|switch)",
            "toggle_airplane_mode",
            "check_status_bar",
        ),
        (r"\bdata[- ]?sav(?:er|ing)|\blow data mode", "toggle_data_saver_mode", "check_data_restriction_status"),
        (r"\broaming", "toggle_roaming", "check_network_status"),
        (r"\bwi-?fi[- ]?call|\bcall\w* over wi-?fi", "toggle_wifi_calling", "check_wifi_calling_status"),
        (r"\bvpn|\bvirtual private", "vpn", "check_vpn_status"),
        (r"\bapns?\b|\baccess point", "reset_apn_settings", "check_apn_settings"),
        (_MODE, "network_mode", "check_network_mode_preference"),
        (_PERMISSION, "permission", "check_app_permissions"),
        (r"\bsim\b", "reseat_sim_card", "check_sim_status"),
        (r"\bspeed ?test|\b(?:internet|data|connection) speed|\bhow fast|\bspeed of your", "", "run_speed_test"),
        (r"\b(?:mms|(?:picture|multimedia|photo) message)", "", "can_send_mms"),
        (r"\binstalled apps|\bapps (?:are|do you have|you have) installed", "", "check_installed_apps"),
        (_BAR, "", "check_status_bar"),
        (_DATA, "toggle_data", "check_network_status"),
        (r"\bwi-?fi", "toggle_wifi", "check_wifi_status"),
        (r"\bnetwork (?:status|connection)|\bconnected to (?:a|the|any) network", "", "check_network_status"),
        (_PAY, "make_payment", "check_payment_request"),
    )
)
# A status bar has no word for what is off.
_SHOWS = {thing.change: thing.show for thing in _THINGS} | {"toggle_airplane_mode": "check_network_status"}
_STATE = re.compile(r"\b(on|off|yes|no)\b", re.I)
_STEPS = r"off|on|out|only|default|factory|re-?(?:set|stor|vert|seat|insert)\w*"
_STEP_VERBS = (
    r"remov\w+|tak\w+|mak\w+|chang\w+|choos\w+|enabl\w+|disabl\w+|complet\w+|eject|pull|pop|set|switch|select|put"
)
_MORE_STEPS = r"grant|allow|give|let|permit|connect|disconnect|pay|settle|accept"
_DOES = re.compile(rf"\b(?:{_STEPS}|{_STEP_VERBS}|(?:{_MORE_STEPS})(?:t?ing)?)\b", re.I)
"""Actions on things, where no verb instructs ("APN: reset to default") or where a way begins with one."""
_CALL = re.compile(r"\b([a-z]+(?:_[a-z]+)+)\s*\(([^()]*)\)")
_TOOL = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")
_WITH_ARGUMENTS = frozenset(
    "set_network_mode_preference grant_app_permission check_app_permissions check_app_status set_apn_settings".split()
)
_PREFERRED = re.compile(r"\bprefer|\bnetwork[- ](?:mode|type)", re.I)
_MODES = (("5g", "4g_5g_preferred"), ("4g|lte", "4g_only"), ("3g", "3g_only"), ("2g", "2g_only"))
_PERMISSIONS: Mapping[str, str] = {
    "storage": r"\bstorage\b|\bfiles\b",
    "sms": r"\bsms\b|\btext messag",
    "phone": r"\bphone permission|\bpermission (?:for|to) (?:the )?phone",
    "network": r"\bnetwork permission",
}
_WORKING = re.compile(
    r"\b(work(s|ing)?(?! for you)|fix(ed)?|solved|resolved|better|gone|improved?|(problem|issue) (persist|remain)s?)\b",
    re.I,
)
_ADDITION = re.compile(r"\w*\W*(?:,|and|as well as|plus|&|\+|/)+\W*(?:your|the)?\W*", re.I)
_FILLING = rf"{SWITCHES}|tap|press|set|slide|put|the|to|button|slider|option|setting|feature|back|again|now|and|for|me"
_OUGHT = re.compile(r"\b(?:must|should|has|have|needs?|ought|got)\b.*\b(?:be|to)\b|\bneeds\b", re.I)
_STATE_VERB = r"\W*(?:\w+ )??(?:'s|\b(?:is|are|was|were|has|have|had|can|could|may|might|will|would|does|did|\w+s))\b"
_SYMPTOMS = (
    (r"\bmms\b", "can_send_mms"),
    (r"mobile data|internet", "run_speed_test"),
    (r"no service|signal", "check_status_bar"),
)


def instructed(text: str, offered: Collection[str], symptom: str = "") -> tuple[Act, ...]:
    """Return the acts that a text asks for, in its order, one for each instruction.

    :param offered: names of the user's tools.
    :param symptom: the tool that shows whether the user's trouble is over.
    """
    text = normal(text)
    calls = {m[1]: _arguments(m[2]) for m in _CALL.finditer(text)}
    acts = [act for _, _, found in _read(_CALL.sub(r"\1", text), symptom, calls) for act in found]
    kept: list[Act] = []
    for act in acts:
        # The way to a switch names it, too: what says how it shall stand says more.
        said_better = not act.state and any(a.name == act.name and a.state for a in acts)
        unsaid = act.name in _WITH_ARGUMENTS and not act.arguments
        if act.name in offered and act not in kept and not said_better and not unsaid:
            kept.append(act)
    return tuple(kept)


def _arguments(written: str) -> Mapping[str, Any]:
    """Read the arguments of a call that is written as text: names with values, or one object."""
    try:
        call = parse_python(f"f({written})", "eval").body
        assert isinstance(call, ast.Call)
        whole = ast.literal_eval(call.args[0]) if call.args else {}
        return {**whole, **{str(k.arg): ast.literal_eval(k.value) for k in call.keywords}}
    except (SyntaxError, ValueError, TypeError):
        return {}


def left_open(text: str) -> bool:
    """Return whether a text instructs to act on a part of the phone, and no clause names the act."""
    read = [(thing.change, clause, acts) for thing, clause, acts in _read(text) if thing is not None and thing.change]
    settled = {change for change, _, acts in read if acts}
    return any(
        change not in settled and clause.mood is Mood.INSTRUCTS and not _leaves(clause.body)
        for change, clause, _ in read
    )


def _read(
    text: str, symptom: str = "", calls: Mapping[str, Mapping[str, Any]] | None = None
) -> Iterator[tuple[_Thing | None, Clause, list[Act]]]:
    """Yield the subjects of a text's clauses, and their acts.

    :param calls: arguments of the tools that the text names.
    """
    thing: _Thing | None = None
    looking = False
    for clause in (half for whole in clauses(text) for half in _halves(whole)):
        if clause.begins or clause.mood is not Mood.NAMES:
            # "Check what it is set to (4G, 5G)": what a sentence adds without a verb is looked at as well.
            looking = clause.mood is Mood.ASKS or (clause.mood is Mood.INSTRUCTS and _leaves(clause.body))
        if tools := _TOOL.findall(clause.body):
            if (clause.mood in (Mood.INSTRUCTS, Mood.NAMES) and not clause.question) or clause.addressed:
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


def _halves(clause: Clause) -> list[Clause]:
    """Return the halves of "roaming on and airplane mode off", or the clause."""
    halves = re.split(r",? and ", clause.body)
    switches = [t.words for t in _THINGS if t.is_switch]
    stated = [(_ON.search(h) or _OFF.search(h)) and any(w.search(h) for w in switches) for h in halves]
    return [replace(clause, body=h) for h in halves] if all(stated) and not _leaves(clause.body) else [clause]


def _leaves(body: str) -> bool:
    """Return whether an instruction leaves everything as it is: to look, to wait, or to talk."""
    head = " ".join(body.split()[:_HEAD])
    return bool((_LOOK.search(head) and not _SEES_TO_IT.match(body)) or _KEEPS.match(body))


def _named(clause: Clause) -> Iterator[_Thing]:
    """Yield the things that a clause is about: the first that it names, and its additions."""
    for body in (clause.body, *reversed(clause.menus)):
        found = [(m.start(), m.end(), thing) for thing in _THINGS if (m := thing.words.search(body))]
        if found:
            (_, end, first), *further = found
            yield first
            for start, after, thing in sorted(further, key=lambda f: f[0]):
                if _ADDITION.fullmatch(body[end:start]):
                    yield thing
                    end = after
            return


def _bare(clause: Clause, thing: _Thing) -> bool:
    """Return whether a clause names an act without its object: "Tap Disconnect.", "Toggle OFF"."""
    if clause.mood is Mood.STATES:
        return False
    if thing.change and not thing.is_switch and not thing.itself:
        return bool(_DOES.search(clause.body)) and len(clause.body.split()) < 7
    rest = re.sub(rf"\b(?:{_FILLING})\b", " ", _OFF.sub(" ", _ON.sub(" ", clause.body)), flags=re.I)
    return not re.search(r"\w", rest) and rest != clause.body


def _acts(thing: _Thing, clause: Clause, text: str, *, looking: bool) -> list[Act]:
    mood = clause.mood
    begins = re.match(rf"\W*(?:(?:your|the|my|any) )?(?:{thing.words.pattern})", clause.body, re.I)
    if mood is Mood.INSTRUCTS and not clause.addressed and begins and not thing.itself and not _DOES.search(begins[0]):
        # It begins with a name and no verb: "Roaming is a setting" states, "Roaming on" wants it.
        rest = clause.body[begins.end() :]
        if not _OUGHT.search(rest):
            mood = Mood.STATES if re.match(_STATE_VERB, rest, re.I) else Mood.NAMES
    if mood is Mood.STATES:
        return []
    looked_for = mood is Mood.ASKS or (mood is Mood.NAMES and (clause.question or looking))
    looks = looked_for or bool(_LOOK.search(clause.body))
    if thing.change and not looked_for and not (mood is Mood.INSTRUCTS and _leaves(clause.body)):
        instructs = mood is Mood.INSTRUCTS and not _NAVIGATES.match(clause.body)
        changed = _changes(thing, clause, text, looks=looks, instructs=instructs)
        if changed:
            return changed
    if not thing.show or (not looks and (mood is Mood.NAMES or thing.change)):
        return []
    return [Act(thing.show, {"app_name": _app(text)} if thing.show == "check_app_permissions" else {})]


def _changes(thing: _Thing, clause: Clause, text: str, *, looks: bool, instructs: bool) -> list[Act]:
    """Return the changes that a clause asks for.

    :param instructs: it can mean nothing but a change, whatever its verb.
    """
    body = _EITHER.sub(" ", clause.body)
    if clause.menus and not (_OFF.search(body) or _ON.search(body)):
        # "Turn it on under Settings > Mobile data": the path's beginning says how the last of its entries shall stand.
        body = _EITHER.sub(" ", " ".join((*clause.menus, body)))
    # A mode that is named is the step.
    named = thing.itself or (thing.change == "network_mode" and _mode(body) and _PREFERRED.search(text))
    if not (instructs or thing.is_switch or named or _DOES.search(body)):
        return []
    last_off = max((m.start() for m in _OFF.finditer(body)), default=-1)
    last_on = max((m.start() for m in _ON.finditer(body)), default=-1)
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
    switches = re.search(rf"\b(?:{SWITCHES}|set|put|enable|disable|activate|deactivate)\b", body, re.I)
    if looks and not _SEES_TO_IT.match(body) and not switches:
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


def with_looks(acts: Sequence[Act], tools: Collection[str]) -> list[Act]:
    """Return acts with a look at each switch before it is touched, as it may be as wanted already.

    :param tools: names of the user's tools.
    """
    found: list[Act] = []
    for act in acts:
        show = _SHOWS.get(act.name, "") if act.state else ""
        seen = found and found[-1].name in (show, act.name)
        found += [act] if seen or show not in tools else [Act(show, first_look=True), act]
    return found


def stands(act: Act, result: str) -> bool | None:
    """Return whether a tool's result shows a switch as an act wants it; None where it does not show that switch."""
    for line in result.split("\n") if act.state else ():
        named = next((thing.change for thing in _THINGS if thing.words.search(line)), "")
        if named == act.name and (state := _STATE.search(line)):
            return (state[1].lower() in ("on", "yes")) == (act.state == "ON")
    return None


def symptom_check(reason: str) -> str:
    """Return the tool that shows whether the trouble that the user calls about is over."""
    return next((tool for pattern, tool in _SYMPTOMS if re.search(pattern, reason, re.I)), "")


def cured(tool: str, result: str) -> bool:
    """Return whether a symptom's tool shows that the trouble is over."""
    if tool == "can_send_mms":
        return "can send" in result
    if tool == "run_speed_test":
        return "excellent" in result.lower()
    return tool == "check_status_bar" and "No Signal" not in result and "Airplane Mode" not in result


# --- tools that take arguments ---

_DISCOVERED = "discoverable_tool_name"
_STEM = 5
_SHORT = 3


def own_deeds(actions: Sequence[tuple[str, Mapping[str, Any]]], tools: Collection[str]) -> list[Act]:
    """Return the user's golds, where the user has no phone: the agent instructs them."""
    phone = "check_status_bar" in tools
    return [Act(name, dict(arguments)) for name, arguments in actions if name in tools and not phone]


def asked_for(text: str, deeds: Sequence[Act], known: str) -> tuple[Act, ...]:
    """Return those deeds that a text of the agent's asks for, equal ones once: a second time takes a second request.

    :param known: all that the user knows itself.
    """
    said, own = _flat(text), _flat(known)
    asked = [d for d in deeds if _names(d, said) and all(v in said or v in own for v in _values(d.arguments))]
    return tuple(deed for place, deed in enumerate(asked) if deed not in asked[:place])


def _names(deed: Act, said: str) -> bool:
    """Return whether a text speaks of a tool, by its name or by the words that the name is made of."""
    name = str(deed.arguments.get(_DISCOVERED, deed.name)).lower()
    words = [word for word in name.split("_") if len(word) > _SHORT and not word.isdigit()]
    return name in said or all(word[:_STEM] in said for word in words)


def _values(arguments: Any) -> Iterator[str]:
    """Yield the values that must have been said, in the form of :func:`_flat`: no argument names, no booleans."""
    if isinstance(arguments, Mapping):
        for name, value in arguments.items():
            if name != _DISCOVERED:
                yield from _values(value)
    elif isinstance(arguments, list):
        for value in arguments:
            yield from _values(value)
    elif isinstance(arguments, str) and arguments.lstrip().startswith(("{", "[")):
        # Arguments of a tool that was unlocked are JSON in a text.
        try:
            yield from _values(json.loads(arguments))
        except ValueError:
            return
    elif isinstance(arguments, float) and arguments.is_integer():
        yield str(int(arguments))
    elif arguments is not None and not isinstance(arguments, bool):
        yield _flat(str(arguments))


def _flat(text: str) -> str:
    """Return a text in small letters, with single spaces and numbers without separators."""
    return " ".join(re.sub(r"(?<=\d),(?=\d{3})|[$*`]", "", text.lower()).split())
