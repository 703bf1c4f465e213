"""Any call, any words, through any dialect, come back equal."""

import json
from dataclasses import replace
from typing import Any

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from one_test import in_one_test

from pytest_a2a_bench import dialects
from pytest_a2a_bench.benchmarks.crmarena import ORG_DIALECTS
from pytest_a2a_bench.model import AgentSaid, Briefing, Event, Part, ToolCall, ToolReturned, ToolSpec, UserSaid

GENERAL = [n for n in dialects.names() if n not in ORG_DIALECTS]
NAMED = [n for n in GENERAL if n != "auto"]
FEW = settings(max_examples=examples(120), deadline=None)

FRAGMENTS = st.sampled_from(
    [
        "{", "}", "[", "]", '"', "'", "\\", "`", "```", "```json\n", "\n", "\r\n", " ", ",", ":", "\u2028", "é", "😀",
        "\0",
        "<json>", "</json>", "<tool_call>", "</tool_call>", "<available_tools>", "\n</available_tools>",
        '{"tool_call": ', '{"name": "get", "arguments": {', "Tool Result (", "\nTool Result (get): ",
        "<think>", "</think>", "[THINK]", "\nThought: ", "\nAction: get\nAction Input: ", "\nObservation: ",
        "[TOOL_CALLS]get",
        "<function=get>", "</function>", "<parameter=a>", '<invoke name="get">', '<parameter name="a">', "</parameter>",
        "</invoke>", "get(", "get(a=", ")", "<|channel|>analysis<|message|>", "<|channel|>final<|message|>", "<|call|>",
        "<|channel|>commentary to=functions.get<|message|>", "<|tool_call_begin|>get", "<|python_tag|>", "?", "{}",
        "\n\nUser: ", "\nAssistant: ", "User message: ", "user: ", "tool: ", "respond", "Tool 'a' result: ",
        "Here's a list of tools you can use\n[]", "Now here are the user messages:\n",
    ]
)  # fmt: skip
WORDS = st.lists(FRAGMENTS | st.text(max_size=6), max_size=6).map("".join)
NAMES = st.one_of(st.sampled_from(["get", "book_flight"]), WORDS).filter(
    lambda n: n not in ("", "respond", "respond_to_user", "{RESPOND_ACTION_NAME}")
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(WORDS, JSON, max_size=3)
CALLS = st.builds(ToolCall, NAMES, ARGUMENTS, st.just("") | WORDS)
SCHEMAS = st.dictionaries(st.sampled_from(["type", "title", "default", "x"]), JSON, max_size=3)
TOOLS = st.builds(ToolSpec, NAMES, WORDS, SCHEMAS)
BRIEFINGS = st.builds(Briefing, WORDS, st.lists(TOOLS, max_size=3).map(tuple))
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(UserSaid, WORDS),
    st.builds(ToolReturned, WORDS, WORDS, WORDS, st.booleans()),
    st.builds(AgentSaid, st.none() | WORDS, st.lists(CALLS, max_size=2).map(tuple)),
)


def exact(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def essence(calls: tuple[ToolCall, ...]) -> list[tuple[str, str, str]]:
    return [(c.name, exact(c.arguments), c.id) for c in calls]


@pytest.mark.parametrize("name", GENERAL)
@FEW
@given(
    calls=st.lists(CALLS, min_size=1, max_size=3, unique_by=lambda c: c.id or object()).map(tuple), known=st.booleans()
)
def test_any_calls_come_back_equal(name: str, calls: tuple[ToolCall, ...], known: bool) -> None:
    dialect = dialects.get(name)
    tools = [ToolSpec(c.name) for c in calls] if known else []
    reply = dialect.decode_reply(dialect.encode_reply(AgentSaid(None, calls)), tools)
    assert essence(reply.calls) == essence(calls)
    assert reply.text is None
    assert not reply.unreadable
    assert {f.rule for f in reply.findings} <= {"several-calls"}


@pytest.mark.parametrize("name", [n for n in NAMED if n != "data"])
@FEW
@given(call=CALLS, fenced=st.booleans())
def test_any_call_is_found_in_prose(name: str, call: ToolCall, fenced: bool) -> None:
    dialect = dialects.get(name)
    (part,) = dialect.encode_reply(AgentSaid(None, (call,)))
    block = f"```json\n{part.text}\n```" if fenced else part.text
    wrapped = Part.of_text(f"Let me see, I'll {{just}} check:\n{block}\nOne \"moment.")
    reply = dialect.decode_reply((wrapped,), [ToolSpec(call.name)])
    assert essence(reply.calls) == essence((call,))
    assert reply.text == "Let me see, I'll {just} check:\nOne \"moment."
    assert "text-beside-call" in {f.rule for f in reply.findings}
    assert not reply.unreadable


@pytest.mark.parametrize("name", ["agentbeats", "sierra", "data"])
@FEW
@given(words=WORDS.filter(str.strip))
def test_any_words_come_back_where_json_carries_them(name: str, words: str) -> None:
    dialect = dialects.get(name)
    reply = dialect.decode_reply(dialect.encode_reply(AgentSaid(words)), [ToolSpec("get")])
    assert (reply.text, reply.calls, reply.findings) == (words, (), ())


@pytest.mark.parametrize("name", GENERAL)
@FEW
@given(said=st.text(st.characters(exclude_characters="{[<", exclude_categories=["Cs"]), min_size=1).filter(str.strip))
def test_plain_prose_comes_back_as_it_is(name: str, said: str) -> None:
    reply = dialects.get(name).decode_reply((Part.of_text(said),), [ToolSpec("get")])
    assert (reply.text, reply.calls, reply.unreadable) == (said, (), False)


@pytest.mark.parametrize("name", ["tool_call", "data", "auto"])
@FEW
@given(briefing=st.none() | BRIEFINGS, events=st.lists(EVENTS, min_size=1, max_size=4))
def test_any_request_in_our_own_formats_comes_back(name: str, briefing: Briefing | None, events: list[Event]) -> None:
    dialect = dialects.get(name)
    decoded = dialect.decode_request(dialect.encode_request(briefing, events))
    assert decoded.briefing == briefing
    assert decoded.events == tuple(events)


@pytest.mark.parametrize("name", ["agentbeats", "sierra"])
@FEW
@given(briefing=st.none() | BRIEFINGS, events=st.lists(EVENTS, min_size=1, max_size=4))
def test_any_events_in_foreign_formats_come_back(name: str, briefing: Briefing | None, events: list[Event]) -> None:
    dialect = dialects.get(name)
    if briefing is not None:
        briefing = replace(briefing, policy=briefing.policy.replace("Here's", "This is"))
    decoded = dialect.decode_request(dialect.encode_request(briefing, events))
    assert decoded.events == tuple(events)
    assert decoded.briefing == briefing


ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        WORDS | st.sampled_from(["tool_call", "tool_calls", "name", "arguments", "function", "id", "message",
                                 "messages", "role", "content", "policy", "tools", "kwargs", "action"]),
        inner,
        max_size=4,
    ),
    max_leaves=8,
)  # fmt: skip
PARTS = st.lists(
    st.one_of(
        WORDS.map(Part.of_text),
        st.text().map(Part.of_text),
        ANYTHING.map(Part.of_data),
        ANYTHING.map(lambda v: Part.of_text(json.dumps(v))),
        ANYTHING.map(lambda v: Part("text", text=repr(v), metadata={"a2a_bench": v})),
        ANYTHING.map(lambda v: Part("text", text="x", metadata={"a2a_bench": {"events": [v], "results": [v]}})),
        st.just(Part("raw", raw="AAAA")),
    ),
    max_size=4,
)


@pytest.mark.parametrize("name", dialects.names())
@FEW
@given(parts=PARTS, tools=st.lists(TOOLS, max_size=2))
def test_nothing_that_an_agent_or_a_client_sends_raises(name: str, parts: list[Part], tools: list[ToolSpec]) -> None:
    dialect = dialects.get(name)
    reply = dialect.decode_reply(parts, tools)
    assert reply.text is None or reply.text.strip()
    # What cannot be read, or is not there, is never passed over in silence.
    found = {f.rule for f in reply.findings}
    assert reply.calls or reply.text or {"empty-reply", "unreadable-call"} & found
    assert not reply.unreadable or {"unreadable-call", "ambiguous-call", "considered-call"} & found
    dialect.decode_request(parts)
    assert dialects.detect_request(parts) in dialects.names()[1:]


FOREIGN = {
    "function": lambda name, said: f"<function={name}>{said}</function>",
    "mistral": lambda name, said: f"[TOOL_CALLS]{name}{said}",
    "react": lambda name, said: f"Action: {name}\nAction Input: {said}",
    "harmony": lambda name, said: (
        f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{said}<|call|>"
    ),
    "deepseek": lambda name, said: f"<|tool_call_begin|>{name}<|tool_sep|>{said}<|tool_call_end|>",
    "llama": lambda name, said: f'<|python_tag|>{{"name": "{name}", "parameters": {said}}}',
    "python": lambda name, said: f"{name}({said})",
    "invoke": lambda name, said: f'<invoke name="{name}">{said}</invoke>',
}


@pytest.mark.slow
@pytest.mark.parametrize("form", FOREIGN)
@FEW
@given(name=st.sampled_from(NAMED), arguments=ARGUMENTS)
def test_any_call_in_a_foreign_form_is_read_and_noted(form: str, name: str, arguments: dict[str, Any]) -> None:
    text = FOREIGN[form]("book_flight", json.dumps(arguments))
    reply = dialects.get(name).decode_reply((Part.of_text(text),), [ToolSpec("book_flight"), ToolSpec("get")])
    assert essence(reply.calls) == essence((ToolCall("book_flight", arguments),))
    assert {f.rule for f in reply.findings} == {"foreign-call-syntax"}


@pytest.mark.slow
@pytest.mark.parametrize("form", FOREIGN)
@FEW
@given(arguments=ARGUMENTS, opened=st.sampled_from(["<think>", "<reasoning>", "[THINK]"]), words=st.just("") | WORDS)
def test_no_call_in_endless_thinking_is_made(form: str, arguments: dict[str, Any], opened: str, words: str) -> None:
    text = FOREIGN[form]("book_flight", json.dumps(arguments).replace("</", "<"))
    words = words.replace("</", "").replace("{", "").replace("[", "")
    parts = (Part.of_text(f"{opened}{words}\n{text}"),)
    assert dialects.get("auto").decode_reply(parts, [ToolSpec("book_flight")]).calls == ()


@in_one_test("name", dialects.names())
def test_data_nested_without_end_does_not_raise(name: str) -> None:
    deep: Any = "x"
    for _ in range(900):
        deep = {"tool_call": [deep]}
    reply = dialects.get(name).decode_reply((Part.of_data(deep),), [])
    assert reply.unreadable
    dialects.get(name).decode_request((Part.of_data({"messages": [deep], "policy": "", "tools": [deep]}),))
