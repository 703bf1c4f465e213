"""The dialects of the tasks about an org: what they write, what they read, what they complain about."""

import json
import time
from dataclasses import replace

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from one_test import in_one_test

from pytest_a2a_bench import dialects
from pytest_a2a_bench.benchmarks.crmarena import ORG_DIALECTS
from pytest_a2a_bench.benchmarks.crmarena.actions import EXECUTE, RESPOND, TOOLS, read_action
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model import AgentSaid, Briefing, Event, Part, ToolCall, ToolReturned, ToolSpec, UserSaid

SOQL = "SELECT Id FROM Case WHERE Status = 'Closed' AND CreatedDate > 2021-01-01T00:00:00Z"
SOSL = "FIND {power AND manager} IN ALL FIELDS RETURNING Product2(Id, Name)"
BRIEFING = Briefing("You work on an org.\n\n# Fields\nUser\n  - Id: the id", TOOLS)
FACTS = {"task_id": "0001", "task_category": "handle_time", "persona": "calm", "required_context": "- Today", "x": 1}
TWO_WAY = ("crm_action", "execute_tags")
FEW = settings(max_examples=examples(150), deadline=None)


def read(dialect: str, *texts: str) -> dialects.DecodedReply:
    return dialects.get(dialect).decode_reply([Part.of_text(t) for t in texts], TOOLS)


def execute(query: str) -> ToolCall:
    return ToolCall("execute", {"query": query})


def respond(answer: str) -> ToolCall:
    return ToolCall("respond", {"answer": answer})


def rules(reply: dialects.DecodedReply) -> list[str]:
    return [f.rule for f in reply.findings]


QUERIES = [
    f'{{"action": "execute", "query": "{SOQL}"}}',
    f'```json\n{{"action": "execute", "query": "{SOQL}"}}\n```',
    f'{{"action": "EXECUTE", "query": "{SOQL}", "thought": "hm"}}',
    f'{{"action": "execute", "arguments": {{"query": "{SOQL}"}}}}',
    f'{{"action": {{"name": "execute", "query": "{SOQL}"}}}}',
    f'{{"action": "execute", "soql": "{SOQL}",}}',
    f"<execute>{SOQL}</execute>",
    f"<thought> first look </thought>\n<execute> {SOQL} </execute>",
    f"<thought> <respond> no </respond> </thought>\n<execute>{SOQL}</execute>",
    f"<Execute lang='soql'>{SOQL}</EXECUTE >",
    f"<execute>\n```sql\n{SOQL}\n```\n</execute>",
    f"<execute> {SOQL}",
    f'<execute>{{"action": "execute", "query": "{SOQL}"}}</execute>',
    f"&lt;execute&gt; {SOQL.replace('>', '&gt;')} &lt;/execute&gt;",
    f'{{"tool_call": {{"name": "execute", "arguments": {{"query": "{SOQL}"}}}}}}',
    f'<json>{{"name": "execute", "kwargs": {{"query": "{SOQL}"}}}}</json>',
    f"<execute>{SOQL}</execute>\n<respond>guessed already</respond>",
]


@in_one_test("dialect", [*TWO_WAY, "auto"])
@in_one_test("said", QUERIES)
def test_a_query_is_found_in_any_form(dialect: str, said: str) -> None:
    reply = read(dialect, said)
    assert [read_action(call) for call in reply.calls] == [(EXECUTE, SOQL, "")]
    assert not reply.unreadable


ANSWERS = [
    '{"action": "respond", "answer": "TX"}',
    "{'action': 'respond', 'answer': 'TX'}",
    '{"action": "respond", "content": "TX"}',
    '{"action": "answer", "answer": "TX"}',
    '{"answer": "TX"}',
    '{"task_id": "0001", "answer": "TX"}',
    "<respond>TX</respond>",
    "<respond> TX",
    "<think>well <execute>no</execute></think><respond>TX</respond>",
    '{"tool_calls": [{"name": "respond", "arguments": {"answer": "TX"}}]}',
]


@in_one_test("dialect", [*ORG_DIALECTS, "auto"])
@in_one_test("said", ANSWERS)
def test_an_answer_is_found_in_any_form(dialect: str, said: str) -> None:
    reply = read(dialect, said)
    assert [read_action(call) for call in reply.calls] == [(RESPOND, "TX", "")]


@in_one_test(
    ("value", "text"),
    [
        ("null", "None"),
        ("5", "5"),
        ("5.0", "5"),
        ("2.5", "2.5"),
        ('["a", "b"]', "a, b"),
        ("[]", "None"),
        ("true", "True"),
    ],
)
def test_answers_that_are_no_text_mean_one(value: str, text: str) -> None:
    reply = read("crm_action", f'{{"action": "respond", "answer": {value}}}')
    assert reply.calls == (respond(text),)


def test_braces_several_actions_data_parts_and_torn_texts() -> None:
    assert read("execute_tags", f"<execute>{SOSL}</execute>").calls == (execute(SOSL),)
    assert read("crm_action", json.dumps({"action": "execute", "query": SOSL})).calls == (execute(SOSL),)
    said = "<respond>early</respond><execute>SELECT Id FROM A</execute><execute>SELECT Id FROM B</execute>"
    reply = read("execute_tags", said)
    assert reply.calls == (execute("SELECT Id FROM A"),)
    assert rules(reply) == ["several-calls"]
    value = {"action": "execute", "query": SOQL}
    assert dialects.get("crm_action").decode_reply([Part.of_data(value)], TOOLS).calls == (execute(SOQL),)
    both = [Part.of_data(value), Part.of_text(json.dumps(value))]
    assert rules(dialects.get("crm_action").decode_reply(both, TOOLS)) == []
    assert read("execute_tags", "<exec", f"ute>{SOQL}</ex", "ecute>").calls == (execute(SOQL),)


def test_an_unrequested_member_is_a_finding() -> None:
    assert rules(read("crm_action", '{"action": "respond", "answer": "x"}')) == []
    assert rules(read("crm_action", 'Well: {"action": "respond", "answer": "x"}')) == ["text-beside-call"]
    assert rules(read("crm_action", "<respond>x</respond>")) == ["other-dialect"]
    assert rules(read("execute_tags", "Well: <respond>x</respond>")) == []
    assert rules(read("execute_tags", "<respond>x")) == ["malformed-action"]
    assert rules(read("crm_action", "I do not know.")) == ["prose-where-action-asked"]
    assert rules(read("crm_action", "")) == ["empty-reply"]
    assert rules(read("auto", "<respond>x</respond>")) == []
    assert rules(read("crm_entropic", '{"task_id": "1", "answer": "x"}')) == []
    assert rules(read("crm_entropic", f"<execute>{SOQL}</execute>")) == ["other-dialect", "query-where-answer-asked"]


@in_one_test("said", ['{"action": "execute"}', '{"action": "fly"}', "<execute> </execute>", '{"action": "exe'])
def test_text_that_resembles_an_action_is_unreadable(said: str) -> None:
    for dialect in TWO_WAY:
        reply = read(dialect, said)
        assert (reply.unreadable, reply.calls, rules(reply)) == (True, (), ["unreadable-call"])


def test_auto_settles_on_the_form_of_the_agent_but_only_about_an_org() -> None:
    for said, dialect in (
        ('{"action": "execute", "query": "SELECT Id FROM A"}', "crm_action"),
        ("<execute>SELECT Id FROM A</execute>", "execute_tags"),
        ('{"task_id": "1", "answer": "A"}', "crm_entropic"),
        ('{"tool_call": {"name": "execute", "arguments": {"query": "SELECT Id FROM A"}}}', "tool_call"),
        ('{"name": "respond", "arguments": {"answer": "A"}}', "agentbeats"),
    ):
        assert dialects.settle(None, read("auto", said)) == dialect
    for tools in ((), (ToolSpec("execute"),), (*TOOLS, ToolSpec("get_user")), (ToolSpec("get_user"),)):
        for said in (QUERIES[0], QUERIES[6], ANSWERS[5], ANSWERS[6]):
            reply = dialects.get("auto").decode_reply([Part.of_text(said)], tools)
            assert (reply.calls, reply.text, reply.dialect) == ((), said, None)


@in_one_test("name", TWO_WAY)
def test_the_first_message_has_everything_and_later_ones_are_bare(name: str) -> None:
    dialect = dialects.get(name)
    (part,) = dialect.encode_request(BRIEFING, [UserSaid("Who was quickest?")])
    assert part.text.startswith("You work on an org.")
    assert part.text.endswith("# Question\nWho was quickest?")
    assert "SOQL OR SOSL" in part.text
    for sent in (part, Part.of_text(part.text)):
        assert dialects.detect_request([sent]) == name
        decoded = dialects.get("auto").decode_request([sent])
        assert decoded.briefing == BRIEFING
        assert decoded.events == (UserSaid("Who was quickest?"),)
    (part,) = dialect.encode_request(None, [ToolReturned("c1", "execute", "Salesforce instance output: []")])
    assert part.text == "Salesforce instance output: []"
    assert dialect.decode_request([part]).events == (ToolReturned("c1", "execute", "Salesforce instance output: []"),)
    bare = dialect.decode_request([Part.of_text(part.text)])
    assert bare.events == (ToolReturned("", "execute", "Salesforce instance output: []"),)


def test_a_tool_result_is_an_observation() -> None:
    dialect = dialects.get("crm_observation")
    found = ToolReturned("c1", "execute", "Salesforce instance output: []")
    (part,) = dialect.encode_request(None, [found])
    assert part.text == "Observation: []\n\nWhat is your next action?"
    assert dialect.decode_request([part]).events == (replace(found, content="[]"),)
    assert dialect.decode_request([Part.of_text(part.text)]).events == (ToolReturned("", "execute", part.text),)
    (first,) = dialect.encode_request(BRIEFING, [UserSaid("Who?")])
    assert first == dialects.get("crm_action").encode_request(BRIEFING, [UserSaid("Who?")])[0]
    asked = AgentSaid(calls=(execute(SOQL),))
    (whole,) = dialect.encode_request(BRIEFING, [UserSaid("Who?"), asked, found, UserSaid("Well?")])
    assert whole.text.endswith("\n\nObservation: []\n\nObservation: Well?\n\nWhat is your next action?")
    assert dialect.decode_request([whole]).events[0] == UserSaid("Who?")
    assert dialect.decode_reply(dialect.encode_reply(asked), TOOLS).calls == asked.calls


def test_the_entropic_request_has_its_fields() -> None:
    dialect = dialects.get("crm_entropic")
    briefing = Briefing("All you need", TOOLS, FACTS)
    (part,) = dialect.encode_request(briefing, [UserSaid("Who?")])
    body = json.loads(part.text)
    assert set(body) == {
        "type", "task_id", "task_category", "prompt", "persona", "required_context", "config", "entropy",
    }  # fmt: skip
    assert (body["type"], body["task_id"], body["prompt"]) == ("crm_task", "0001", "Who?")
    assert dialects.detect_request([part]) == "crm_entropic"
    decoded = dialect.decode_request([part])
    assert decoded.events == (UserSaid("Who?"),)
    assert decoded.briefing == Briefing("All you need", TOOLS, {k: v for k, v in FACTS.items() if k != "x"})
    (later,) = dialect.encode_request(None, [UserSaid("And?")])
    assert dialect.decode_request([later]) == dialects.DecodedRequest(None, (UserSaid("And?"),))
    assert read("crm_entropic", "TX").calls == (respond("TX"),)


def test_other_tools_are_refused_with_the_dialects_that_carry_them() -> None:
    for name in ORG_DIALECTS:
        with pytest.raises(ConfigurationError, match=rf"{name}.*choose auto, tool_call"):
            dialects.get(name).encode_request(Briefing("p", (ToolSpec("get_user"),)), [UserSaid("hi")])


@in_one_test("name", ORG_DIALECTS)
def test_the_reminder_shows_the_format(name: str) -> None:
    (part,) = dialects.get(name).reminder()
    assert "could not be read" in part.text
    assert '"answer": ["VALUE", ...]' in part.text.replace("\\", "")


def test_only_the_two_actions_are_actions() -> None:
    assert read_action(ToolCall("fly")) == ("", 'there is no action "fly"', "")
    assert read_action(ToolCall("execute", {"query": " "})).name == ""
    assert read_action(ToolCall("respond", {})).name == ""
    assert read_action(execute(f"```sql\n{SOQL}\n```")) == (EXECUTE, SOQL, "")
    assert read_action(ToolCall("respond", {"answer": None}, "c")) == (RESPOND, "None", "")
    nearly = "{'answer': ['Budget']}"
    assert read_action(ToolCall("respond", {"answer": nearly})) == (RESPOND, nearly, "")


WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40).map(str.strip).filter(bool)
PLAIN = WORDS.filter(lambda w: not set("<&`{") & set(w))


@pytest.mark.parametrize("name", ["crm_action", "crm_entropic"])
@FEW
@given(answer=WORDS)
def test_any_answer_comes_back_where_json_carries_it(name: str, answer: str) -> None:
    dialect = dialects.get(name)
    reply = dialect.decode_reply(dialect.encode_reply(AgentSaid(calls=(respond(answer),))), TOOLS)
    assert (reply.calls, reply.findings, reply.dialect) == ((respond(answer),), (), name)


@pytest.mark.parametrize("name", TWO_WAY)
@FEW
@given(words=PLAIN, kind=st.booleans(), fenced=st.booleans())
def test_any_plain_action_comes_back(name: str, words: str, kind: bool, fenced: bool) -> None:
    dialect = dialects.get(name)
    call = execute(words) if kind else respond(words)
    (part,) = dialect.encode_reply(AgentSaid(calls=(call,)))
    sent = Part.of_text(f"```\n{part.text}\n```") if fenced else part
    for reader in (dialect, dialects.get("auto")):
        reply = reader.decode_reply([sent], TOOLS)
        assert (reply.calls, reply.dialect) == ((call,), name)


EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(UserSaid, WORDS),
    st.builds(ToolReturned, WORDS, st.just("execute"), WORDS, st.booleans()),
    st.builds(AgentSaid, st.none(), st.just((execute(SOQL),))),
)


@pytest.mark.parametrize("name", TWO_WAY)
@FEW
@given(policy=WORDS, brief=st.booleans(), events=st.lists(EVENTS, min_size=1, max_size=4))
def test_any_events_come_back(name: str, policy: str, brief: bool, events: list[Event]) -> None:
    dialect = dialects.get(name)
    briefing = Briefing(policy, TOOLS) if brief else None
    decoded = dialect.decode_request(dialect.encode_request(briefing, events))
    assert (decoded.briefing, decoded.events) == (briefing, tuple(events))


PIECES = st.sampled_from(
    ["<execute>", "</execute>", "<respond>", "</respond>", "<thought>", "</thought>", '{"action": ', '"execute"',
     '"query": ', '"respond"', '"answer": ', "{", "}", "```", "```sql\n", "\n", SOQL, SOSL, "'", '"', ",",
     "&lt;execute&gt;", "<execute ", ">", '{"answer": "x"}', '{"name": "respond", "arguments": ']
)  # fmt: skip


@pytest.mark.parametrize("name", [*ORG_DIALECTS, "auto"])
@FEW
@given(said=st.lists(PIECES | st.text(max_size=4), max_size=14).map("".join))
def test_no_reply_raises_or_passes_in_silence(name: str, said: str) -> None:
    reply = read(name, said)
    assert len(reply.calls) <= 1 or name == "auto"
    if said.strip() and not any(read_action(call).name for call in reply.calls) and name != "auto":
        assert reply.findings


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        *("<execute>", "<respond> x", '{"action": "execute", ', "<thought>"),
        *("```", "<execute a", "&lt;execute", "</execute>"),
    ],
)
def test_hostile_replies_take_no_time(piece: str) -> None:
    said = (piece * 100_000)[:300_000]
    for name in (*ORG_DIALECTS, "auto"):
        started = time.process_time()
        read(name, said)
        assert time.process_time() - started < 5.0, name
