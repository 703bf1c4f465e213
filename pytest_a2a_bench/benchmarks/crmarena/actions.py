"""The two actions of a CRM task: their tools, the forms in which agents write them, and how query results are shown."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from pytest_a2a_bench.benchmarks.crmarena.org import OrgError, QueryResult
from pytest_a2a_bench.dialects.calls import read_calls
from pytest_a2a_bench.dialects.reading import DecodedReply, cut_parts, too_deep, too_slow
from pytest_a2a_bench.dialects.scan import RAW_LIMIT
from pytest_a2a_bench.dialects.serialization import BROKEN, MAX_TEXT, find_blocks
from pytest_a2a_bench.model import DialectFinding, Part, ToolCall, ToolSpec
from pytest_a2a_bench.model.messages import DEFAULT_BOUNDS, Bounds, CpuAllowance, is_deeper

EXECUTE = "execute"
RESPOND = "respond"

TOOLS = (
    ToolSpec(
        EXECUTE,
        "Run one SOQL or SOSL query on the org and see what it finds.",
        {
            "type": "object",
            "properties": {"query": {"type": "string", "description": "The SOQL or SOSL text."}},
            "required": ["query"],
        },
    ),
    ToolSpec(
        RESPOND,
        "Give the answer, or speak to the user.",
        {
            "type": "object",
            "properties": {
                "answer": {"type": "string", "description": 'The answer as {"answer": ["VALUE", ...]}, or words.'}
            },
            "required": ["answer"],
        },
    ),
)
"""The actions as tools, for the dialects that call tools."""

OUTPUT_LABEL = "Salesforce instance output: "
"""The beginning of the org's message."""

ASK = "ask_agent"


def asking_tool(colleagues: Sequence[str], questions: int) -> ToolSpec:
    """Return the third tool, for an agent that may ask colleagues."""
    return ToolSpec(
        ASK,
        "Ask a colleague, an agent as you are, a question in plain words and see its answer. "
        f"Colleagues: {', '.join(colleagues)}. At most {questions} questions in this task.",
        {
            "type": "object",
            "properties": {
                "name": {"type": "string", "enum": list(colleagues), "description": "Whom to ask."},
                "question": {"type": "string", "description": "The question, with all that is needed to answer it."},
            },
            "required": ["name", "question"],
        },
    )


Form = Literal["crm_action", "execute_tags", "crm_entropic", "call"]
"""How an action was written: by the name of the dialect whose form it is, or as a call of a tool."""

_EXECUTE_NAMES = frozenset({EXECUTE, "query", "soql", "sosl", "search", "run_query", "execute_query", "run"})
_RESPOND_NAMES = frozenset({RESPOND, "answer", "submit", "response", "final", "final_answer", "reply", "finish"})
# Names that models give the argument, although the tool's schema has another one: the words count.
_QUERY_KEYS = ("query", "soql", "sosl", "content", "q", "input", "text", "execute")
_ANSWER_KEYS = ("answer", "answers", "content", "message", "response", "text", "result", "respond", "final_answer")
_INSIDE = ("arguments", "parameters", "args", "params", "kwargs", "input")
_THOUGHTS = re.compile(r"<(think|thought|thinking|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_OPENER = re.compile(r"<(execute|respond)(?:\s[^<>]{0,200})?>", re.IGNORECASE)
_CLOSER = {name: re.compile(rf"</\s{{0,5}}{name}\s{{0,5}}>", re.IGNORECASE) for name in (EXECUTE, RESPOND)}
_FENCE = re.compile(r"\A\s*```[\w+-]*[ \t]*\n?(.*?)\n?\s*```\s*\Z", re.DOTALL)
_ESCAPED = re.compile(r"&lt;(?=/?(?:execute|respond)\b)", re.IGNORECASE)
_SUSPICIOUS = re.compile(r"""["']action["']\s{0,20}:|</?(?:execute|respond)\b""", re.IGNORECASE)
_MAX_ACTIONS = 50


class Found(NamedTuple):
    """One action in a reply.

    :param name: ``execute`` or ``respond``.
    :param payload: the query or the answer, never blank.
    :param fault: the error in its form, or an empty string.
    """

    name: str
    payload: str
    form: Form
    start: int = 0
    end: int = 0
    fault: str = ""
    call_id: str = ""


def is_about_org(tools: Collection[ToolSpec]) -> bool:
    """Return whether tools are the two actions of an org, perhaps with colleagues to ask, and nothing else."""
    return {t.name for t in tools} - {ASK} == {EXECUTE, RESPOND}


def strip_fence(text: str) -> str:
    """Return the inside of a Markdown code fence around a query, or the query itself, without blanks around it."""
    match = _FENCE.match(text)
    return (match[1] if match else text).strip()


def answer_text(value: Any) -> str | None:
    """Write an answer of any JSON type as the text that it means: null is None, a list is separated by commas."""
    match value:
        case None:
            return "None"
        case str():
            return value
        case float() if value.is_integer():
            return str(int(value))
        case int() | float():
            return str(value)
        case list():
            return ", ".join(filter(None, map(answer_text, value))) or "None"
        case Mapping():
            return json.dumps(value, ensure_ascii=False)
    return None


def read_object(value: Any) -> Found | None:
    """Read a JSON value as an action (``{"action": "execute", "query": ...}``, ``{"execute": ...}``,
    ``{"task_id": ..., "answer": ...}``), or return None if it is none.
    """
    if not isinstance(value, Mapping):
        return None
    action = value.get("action")
    if isinstance(action, Mapping):
        return read_object({**action, "action": action.get("action") or action.get("name") or action.get("type")})
    if isinstance(action, str):
        return _read_named(action.strip().lower(), value)
    named = set(value) & {EXECUTE, RESPOND}
    if action is None and "answer" in value and "name" not in value:
        found = _read_named(RESPOND, {"answer": value["answer"], "id": value.get("task_id")})
        return found and found._replace(form="crm_entropic" if "task_id" in value else "crm_action")
    if action is None and len(named) == 1 and isinstance(value[(name := named.pop())], str):
        return _read_named(name, value)
    return None


def _read_named(name: str, value: Mapping[str, Any]) -> Found | None:
    inside: Mapping[str, Any] = next((value[key] for key in _INSIDE if isinstance(value.get(key), Mapping)), {})
    call_id = value.get("id")
    call_id = call_id if isinstance(call_id, str) and len(call_id) <= 256 else ""
    if name in _EXECUTE_NAMES:
        query = _query_in(value, inside)
        return Found(EXECUTE, query, "crm_action", call_id=call_id) if query else None
    answer = _answer_in(value, inside) if name in _RESPOND_NAMES else ""
    return Found(RESPOND, answer, "crm_action", call_id=call_id) if answer else None


def _query_in(*places: Mapping[str, Any]) -> str:
    query = next((place[key] for place in places for key in _QUERY_KEYS if key in place), None)
    return strip_fence(query) or query.strip() if isinstance(query, str) else ""


def _answer_in(*places: Mapping[str, Any]) -> str:
    answer = next((place[key] for place in places for key in _ANSWER_KEYS if key in place), "")
    return (answer_text(answer) or "").strip()


def read_data(value: Any) -> Found | None:
    """Read a JSON value as an action or as a call of one of the two tools."""
    found = read_object(value)
    if found is not None:
        return found
    reading = read_calls(value, (EXECUTE, RESPOND))
    for call in reading.calls if reading else ():
        named = _read_named(call.name, {"id": call.id, **call.arguments}) if call.name in (EXECUTE, RESPOND) else None
        if named is not None:
            return named._replace(form="call")
    return None


def find_actions(text: str, allowance: CpuAllowance) -> tuple[list[Found], str, bool]:
    """Find the actions in a text: tags, JSON objects, calls of the two tools. What an agent thinks aloud is no action.

    Takes time linear in the text's length, whatever it holds.

    :param allowance: once it is spent, no further JSON is read.
    :return: the actions, the text without them, and whether something looks like an action that is none.
    """
    spoken = _THOUGHTS.sub("", text[:MAX_TEXT])
    # Tags escaped for HTML are read only where no action is plain, whose query may have an &lt; of its own.
    if not _SUSPICIOUS.search(spoken) and _ESCAPED.search(spoken):
        spoken = spoken.replace("&lt;", "<").replace("&gt;", ">")
    blocks = [(b, read_data(b.value)) for b in find_blocks(spoken, allowance=allowance) if b.value is not BROKEN]
    objects = [found._replace(start=b.start, end=b.end) for b, found in blocks if found is not None]
    tags = [t for t in _find_tags(spoken) if not any(o.start <= t.start < o.end for o in objects)]
    outside = [o for o in objects if not any(t.start <= o.start < t.end for t in tags)]
    actions = sorted([*outside, *(t for t in tags if t.payload)], key=lambda found: found.start)
    pieces, position = [], 0
    for found in actions:
        pieces.append(spoken[position : max(position, found.start)])
        position = max(position, found.end)
    cleaned = (re.sub(r"```[\w+-]*|<[|/]?\w*[|]?>\s*\Z", "", p).strip() for p in [*pieces, spoken[position:]])
    return actions, "\n".join(filter(None, cleaned)), not actions and bool(_SUSPICIOUS.search(spoken))


def _find_tags(text: str) -> list[Found]:
    found: list[Found] = []
    position = 0
    while len(found) < _MAX_ACTIONS and (opener := _OPENER.search(text, position)):
        name = opener[1].lower()
        closer = _CLOSER[name].search(text, opener.end())
        following = _OPENER.search(text, opener.end())
        inner = closer.start() if closer else following.start() if following else len(text)
        position = closer.end() if closer else inner
        payload, call_id = _inside_tag(name, text[opener.end() : inner])
        fault = "" if closer else f"the <{name}> tag is not closed"
        found.append(Found(name, payload, "execute_tags", opener.start(), position, fault, call_id))
        if not closer and not following:
            break
    return found


def _inside_tag(name: str, content: str) -> tuple[str, str]:
    """Return a tag's text, and its id; some agents put the JSON form inside."""
    payload = strip_fence(content) if name == EXECUTE or _FENCE.match(content) else content.strip()
    if payload.startswith("{") and '"' in payload:
        blocks = list(find_blocks(payload))
        if len(blocks) == 1 and (blocks[0].start, blocks[0].end) == (0, len(payload)):
            found = read_object(blocks[0].value)
            if found is not None and found.name == name:
                return found.payload, found.call_id
    return payload, ""


def read_org_reply(
    parts: Sequence[Part], dialect: str, *, prose_allowed: bool = False, bounds: Bounds = DEFAULT_BOUNDS
) -> DecodedReply:
    """Read a reply. Never raises, whatever the parts contain.

    Of several actions the first query counts, otherwise the first answer, as upstream's parser has it. What is beyond a
    bound is not read, and a finding says so.

    :param dialect: the one that the agent was addressed in; another one's form is read too, and is a finding.
    :param prose_allowed: whether words beside the action are welcome.
    """
    kept, limits = cut_parts(parts, bounds)
    allowance = CpuAllowance(bounds.cpu)
    shallow = [p for p in kept if p.kind != "data" or not is_deeper(p.data, bounds.depth)]
    limits += [too_deep(bounds)] * (len(shallow) < len(kept))
    found, prose, raw, suspicious = _gather(shallow, allowance)
    limits += [too_slow(bounds)] * allowance.is_spent
    if found:
        return _take(found, prose, raw, dialect, prose_allowed, limits)
    if not raw.strip():
        finding = DialectFinding("empty-reply", "the reply has neither text nor an action")
    elif suspicious:
        finding = DialectFinding("unreadable-call", "this looks like an action but cannot be read", raw)
    else:
        finding = DialectFinding("prose-where-action-asked", f"the {dialect} dialect asks for an action", raw)
    unreadable = bool(limits) or (suspicious and bool(raw.strip()))
    return DecodedReply((prose or raw) if raw.strip() else None, findings=(finding, *limits), unreadable=unreadable)


def _gather(parts: Sequence[Part], allowance: CpuAllowance) -> tuple[list[Found], str, str, bool]:
    """Return the actions, the prose, the reply as it came (bounded), and whether it looks like an action."""
    read = [(p.data, read_data(p.data)) for p in parts if p.kind == "data" and not allowance.is_spent]
    texts = [p.text for p in parts if p.kind == "text" and p.text]
    # Some servers stream one text as many parts, torn anywhere.
    actions, prose, suspicious = find_actions("".join(texts), allowance)
    if not actions and len(texts) > 1 and not allowance.is_spent:
        actions, prose, suspicious = find_actions("\n".join(texts), allowance)
    found = [f for _, f in read if f is not None]
    known = {(f.name, f.payload) for f in found}
    found += [f for f in actions if (f.name, f.payload) not in known]
    unread = [data for data, f in read if f is None and data not in (None, {}, [])]
    shown = json.dumps(unread[0], ensure_ascii=False, default=str) if unread else ""
    return found, prose, ("\n".join(texts) or shown)[:RAW_LIMIT], suspicious or bool(unread)


def _take(
    found: Sequence[Found], prose: str, raw: str, dialect: str, prose_allowed: bool, limits: Sequence[DialectFinding]
) -> DecodedReply:
    """Choose the action that counts, and name breaches of the dialect."""
    chosen = next((f for f in found if f.name == EXECUTE), found[0])
    findings = []
    form = "tool_call" if chosen.form == "call" else chosen.form
    if form != dialect:
        message = f"the {dialect} dialect was asked for; this action is written in {form}"
        findings.append(DialectFinding("other-dialect", message, raw))
    if chosen.fault:
        findings.append(DialectFinding("malformed-action", chosen.fault, raw))
    if len({(f.name, f.payload) for f in found}) > 1:
        message = f"one action at a time is allowed; of the {len(found)} in this reply only one counts"
        findings.append(DialectFinding("several-calls", message, raw))
    if prose and not prose_allowed:
        findings.append(DialectFinding("text-beside-call", "text beside an action reaches nobody", prose[:RAW_LIMIT]))
    key = "query" if chosen.name == EXECUTE else "answer"
    call = ToolCall(chosen.name, {key: chosen.payload}, chosen.call_id)
    return DecodedReply(prose or None, (call,), (*findings, *limits), dialect=form)


class Action(NamedTuple):
    """One action: run a query, give the answer (in an interactive task: speak to the user), or ask a colleague.

    :param name: ``execute``, ``respond`` or ``ask_agent``; empty for none of these, which costs a turn.
    :param text: the query, answer or question; of none the problem, for people.
    :param colleague: who is asked.
    """

    name: str
    text: str
    colleague: str = ""


def read_action(call: ToolCall) -> Action:
    """Read a call as an action."""
    name = call.name.strip().lower()
    # With a single argument its name does not matter.
    alone = dict.fromkeys((EXECUTE, RESPOND), *call.arguments.values()) if len(call.arguments) == 1 else {}
    if name == EXECUTE:
        query = _query_in(call.arguments, alone)
        return Action(EXECUTE, query) if query else Action("", f"a call of {EXECUTE} without a query")
    if name == RESPOND:
        answer = _answer_in(call.arguments, alone)
        return Action(RESPOND, unwrap(answer)) if answer else Action("", f"a call of {RESPOND} without an answer")
    if name == ASK:
        whom, question = call.arguments.get("name"), call.arguments.get("question")
        if isinstance(question, str) and question.strip():
            return Action(ASK, question.strip(), whom.strip() if isinstance(whom, str) else "")
        return Action("", f"a call of {ASK} without a question")
    return Action("", f"there is no action {json.dumps(call.name[:80])}")


def unwrap(answer: str) -> str:
    """Return the joined members of an answer that is nothing but ``{"answer": [...]}``; another answer as it is."""
    text = strip_fence(answer)
    try:
        # Strictly: what is nearly JSON stays the agent's words.
        value = json.loads(text) if text.startswith("{") else None
    except (ValueError, RecursionError):
        value = None
    inside = answer_text(value["answer"]) if isinstance(value, dict) and set(value) == {"answer"} else None
    return (inside or "").strip() or answer.strip()


def visible_records(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return records as the agent sees them: without ``attributes`` and without columns that are null in all of them.

    Only the outermost level is tidied, as upstream does: nested parents and children keep their ``attributes``.
    A column counts if the first record has it; upstream's records all have the same columns.
    """
    columns = records[0] if records else ()
    left_out = {"attributes", *(key for key in columns if all(record.get(key) is None for record in records))}
    return [{key: value for key, value in record.items() if key not in left_out} for record in records]


def render_result(result: QueryResult) -> str:
    """Write a query's records, never truncated.

    ``SELECT COUNT()`` has no records, so it reads ``[]`` as upstream's does, although the prompt cannot say so without
    giving a query away; agents count with ``COUNT(Id)``.
    """
    # As a Python list, which is how upstream's agents see it; the solver reads it back.
    return f"{OUTPUT_LABEL}{visible_records(result.records)}"


def render_error(error: OrgError) -> str:
    """Write why the org refuses a query: ``{code}: {message}``."""
    return f"{OUTPUT_LABEL}{error.code}: {error.message}"
