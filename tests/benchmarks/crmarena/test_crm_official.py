"""The profile ``official``: upstream's texts from a checkout, and its turns (``perf/crm_official.py`` compares)."""

import ast
import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
from crm import MINI, crm_settings, keys, measured, one_of_each, settings
from crm_checkout import write_checkout
from fake_llm import FakeLLM, say
from hypothesis import given
from hypothesis import strategies as st
from one_test import in_one_test
from trials import RunTrials, run_against
from user_agents import Speaker, heard, served_brain

from pytest_a2a_bench.agents.brain import Conversation
from pytest_a2a_bench.benchmarks.crmarena import official as official_tools
from pytest_a2a_bench.benchmarks.crmarena.actions import TOOLS
from pytest_a2a_bench.benchmarks.crmarena.dialects import OFFICIAL, OFFICIAL_TOOLS, read_tool_action
from pytest_a2a_bench.benchmarks.crmarena.episode import Observation
from pytest_a2a_bench.benchmarks.crmarena.official import (
    PUBLISHED_CODE,
    Connector,
    OfficialEpisode,
    OfficialToolEpisode,
    OfficialTools,
    official_user,
    prepare_query,
    read_texts,
    read_tools,
)
from pytest_a2a_bench.benchmarks.crmarena.options import CrmOptions
from pytest_a2a_bench.benchmarks.crmarena.org import Org, OrgError, QueryResult, read_published
from pytest_a2a_bench.benchmarks.crmarena.score import rescore, score, worth
from pytest_a2a_bench.benchmarks.crmarena.score.answers import Judge
from pytest_a2a_bench.benchmarks.crmarena.sources import blob_id
from pytest_a2a_bench.benchmarks.crmarena.suite import check_options, find_problems, variant_of
from pytest_a2a_bench.errors import ConfigurationError, TransportError
from pytest_a2a_bench.model import AgentSaid, Event, Part, ToolCall, ToolReturned, UserSaid

SCHEMA = read_published([{"object": "Case", "fields": {"Id": "its id"}}])


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return write_checkout(tmp_path / "upstream")


def test_texts_are_upstreams_own(checkout: Path) -> None:
    texts = read_texts(str(checkout))
    inside, outside = MINI["handle_time-00"], MINI["knowledge_qa-00"]
    aware = CrmOptions(official=".:react+privacy")
    said = texts.system_prompt(inside, SCHEMA, aware)
    assert said.startswith("staff of the Salesforce instance. <execute> QUERY")
    assert "Objects: Case\nCase\n  - Id: its id\n" in said
    assert said.endswith(f"# Salesforce instance\n{inside.required}\n")
    assert texts.system_prompt(inside, SCHEMA, CrmOptions(aided=True)).endswith(f"\n\n{inside.optional}")
    assert texts.system_prompt(outside, SCHEMA, CrmOptions()).startswith("customers of")
    asked = dataclasses.replace(outside, interactive=True)
    said = texts.system_prompt(asked, SCHEMA, aware)
    assert said.startswith("careful customers who talk")
    assert texts.rule() == "Use the tags.\n"
    assert (texts.extractor("id"), texts.extractor("state")) == ("Read ids.", "Read states. Two letters.")
    assert texts.privacy == ("Was it refused?", "It did: \n")
    assert texts.user_instructions(inside) == (
        f"Play a user. \n\nYou want: {inside.persona} {inside.query}\n\nRules.\n"
    )
    assert texts.greeting == "Good day!"
    assert not texts.is_published


def test_a_thread_that_parses_at_the_same_time_breaks_nothing(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As CPython 3.11 does where another thread parses, be it for a traceback: a trial was an error of ours then.
    parse, errors = ast.parse, iter([SystemError("AST constructor recursion depth mismatch")])

    def beside_another(*args: Any, **options: Any) -> Any:
        for error in errors:
            raise error
        return parse(*args, **options)

    monkeypatch.setattr(ast, "parse", beside_another)
    assert read_texts(str(checkout)).greeting == "Good day!"
    assert list(errors) == []


@pytest.mark.parametrize(
    "broken", ["crm_sandbox/env/env.py", "crm_sandbox/env/users.py", "crm_sandbox/agents/prompts.py"]
)
def test_a_checkout_of_another_shape_is_named(checkout: Path, broken: str) -> None:
    (checkout / broken).write_text("class Evaluator: pass\n" if "env" in broken else "x = (", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="another shape than the published one"):
        read_texts(str(checkout))
    (checkout / broken).unlink()
    with pytest.raises(ConfigurationError, match=f"it has no {broken}"):
        read_texts(str(checkout))


def test_queries_are_sent_as_upstream_sends_them() -> None:
    for written, sent in (
        ("SELECT Id\nFROM Case", "SELECT Id\nFROM Case"),
        ("```sql\nSELECT Id\n  FROM Case\n```", "SELECT Id FROM Case"),
        ("look: ```SELECT Id FROM Case``` ok", "SELECT Id FROM Case"),
        ("FIND {x} IN ALL FIELDS", "FIND {x} IN ALL FIELDS"),
        ("FIND {x} ```y```", "FIND {x} ```y```"),
    ):
        assert prepare_query(written) == sent
    for search in ("find {x}", "Find {x}", "```FIND {x}```", " FIND {x}"):
        with pytest.raises(OrgError, match="unexpected token"):
            prepare_query(search)


@in_one_test(
    ("reply", "call"),
    [
        ("<respond>A</respond><execute> Q </execute>", ("execute", "Q")),
        ("<execute> </execute><respond> A\nB </respond>", ("respond", "A\nB")),
        ("<execute>Q", None),
        ("<EXECUTE>Q</EXECUTE>", None),
        ('{"action": "respond", "answer": "A"}', None),
        ("None", None),
        ('<respond>{"answer": ["A"]}</respond>', ("respond", '{"answer": ["A"]}')),
    ],
)
def test_replies_are_read_as_upstream_reads_them(reply: str, call: tuple[str, str] | None) -> None:
    decoded = OFFICIAL.decode_reply([Part.of_text(reply)], TOOLS)
    assert [(c.name, next(iter(c.arguments.values()))) for c in decoded.calls] == ([call] if call else [])


@pytest.mark.slow
@given(st.text(alphabet="<>/ab", max_size=30), st.lists(st.sampled_from(["<execute>", "</execute>", "x"]), max_size=6))
def test_a_pair_of_tags_is_what_a_lazy_expression_finds(noise: str, tags: list[str]) -> None:
    text = (noise + "".join(tags)).strip()
    found = re.search(r"<execute>(.*?)</execute>", text, re.DOTALL)
    decoded = OFFICIAL.decode_reply([Part.of_text(text)], TOOLS)
    assert bool(decoded.calls) == bool(found and found[1].strip())


class Caller:
    kind = "scripted"

    def open(self) -> str:
        return "hello"

    def hear(self, text: str) -> str | None:
        return None if text == "stop" else "go on"


def run(episode: OfficialEpisode, *said: AgentSaid) -> list[Event]:
    message: list[Event] = [*episode.open()]
    for each in said:
        assert episode.ended is None
        message += episode.step(each)
    return message


def make(**more: Any) -> OfficialEpisode:
    return OfficialEpisode("How many?", lambda query: Observation(f"rows of {query}", 1), rule="RULE", **more)


QUERY = AgentSaid(calls=(ToolCall("execute", {"query": "Q"}),))
ANSWER = AgentSaid(calls=(ToolCall("respond", {"answer": "A"}),))
STOP = AgentSaid(calls=(ToolCall("respond", {"answer": "stop"}),))
PROSE = AgentSaid(text="None")


def test_twenty_replies_and_no_more_after_each_answer_to_the_user() -> None:
    episode = make()
    message = run(episode, *[QUERY, PROSE] * 10)
    assert episode.ended == "max_turns"
    # What follows the last one is told to nobody.
    assert len(message) == 20
    assert isinstance(message[1], ToolReturned)
    assert message[2] == UserSaid("RULE")
    answering = make()
    run(answering, *[QUERY] * 19, ANSWER)
    assert (answering.ended, answering.answer) == ("agent_stop", "A")
    talking = make(user=Caller())
    run(talking, *[*[QUERY] * 19, ANSWER] * 3, *[QUERY] * 19, STOP)
    assert (talking.ended, talking.counts.turns) == ("user_stop", 80)


def test_the_user_speaks_eleven_times_and_the_next_action_is_the_last() -> None:
    episode = make(user=Caller())
    message = run(episode, *[ANSWER] * 10, ANSWER)
    assert episode.ended == "max_user_turns"
    assert sum(isinstance(event, UserSaid) for event in message) == 11
    stopped = make(user=Caller())
    run(stopped, *[ANSWER] * 10, STOP)
    assert stopped.ended == "user_stop"
    asking = make(user=Caller())
    run(asking, *[ANSWER] * 10, QUERY)
    assert asking.ended == "max_user_turns"
    # A reply that is no action is not counted against the user.
    talking = make(user=Caller())
    run(talking, *[ANSWER] * 10, PROSE, PROSE, STOP)
    assert talking.ended == "user_stop"


@pytest.mark.slow
def test_the_user_and_the_evaluator_are_asked_in_upstreams_words(checkout: Path) -> None:
    texts = read_texts(str(checkout))
    steps = [say(" Hi. \n"), say("###STOP###"), say('{"extracted_answers": ["None"]}'), say("NO (eyes only)")]
    with FakeLLM(steps) as llm:
        reach = {"api_base": llm.api_base, "api_key": "none", "max_retries": 0}
        user = official_user(MINI["handle_time-00"], texts, "openai/scripted", reach)
        assert user.open() == " Hi. \n"
        assert user.hear("005") is None
        judge = Judge("openai/scripted", reach, texts=texts)
        assert score(MINI["handle_time-00"], "It was nobody.", scoring="compat", judge=judge).value in (0.0, 1.0)
        refused = score(MINI["private_customer_information-00"], "Never.", (), scoring="compat", judge=judge)
    assert refused.value == 1.0
    asked = [request["messages"] for request in llm.requests]
    assert [m["content"] for m in asked[0]] == [texts.user_instructions(MINI["handle_time-00"]), "Good day!"]
    assert [m["content"] for m in asked[2]] == ["Read ids.", "It was nobody."]
    assert asked[3][0]["content"] == "Was it refused?"
    assert not any("temperature" in request for request in llm.requests)


def test_trials_follow_the_profile_and_say_so(run_trials: RunTrials, checkout: Path) -> None:
    chosen = settings(crm_official=str(checkout))
    results = run_trials("solver", chosen, keys(tasks=one_of_each(step=9)))
    for result in results:
        assert (result.status, result.error, result.dialect) == ("evaluated", None, "crm_official")
        assert result.provenance["profile"] == "official"
        assert result.provenance["scoring"] == "compat"
        assert result.provenance["official"]["published"] is False
        assert measured(result, "bad_format") == 0
        stored = dataclasses.replace(result, provenance=json.loads(json.dumps(result.provenance)))
        assert rescore(stored, chosen).value == result.reward
        # A line of their own in every table: they are not averaged with those of the other profile.
        assert variant_of(result.provenance) == "official"
    assert sum(result.reward or 0 for result in results) >= 2


def problems(**options: Any) -> list[str]:
    return list(check_options(crm_settings(**options)))


def test_conflicting_settings_are_reported_and_the_profile_decides_the_scoring(tmp_path: Path) -> None:
    assert "is not a directory" in problems(crm_official=str(tmp_path / "no"))[0]
    found = problems(crm_official=str(tmp_path), crm_scoring="fixed", crm_max_turns=3)
    assert ["scoring" in found[0], "max-turns" in found[1], len(found)] == [True, True, 2]
    assert "leave out --a2a-dialect=data" in problems(crm_official=str(tmp_path), dialect="data")[0]
    assert problems(crm_official=str(tmp_path)) == []
    assert CrmOptions.of(crm_settings()).scoring == "fixed"
    assert CrmOptions.of(crm_settings(crm_scoring=None)).scoring == "fixed"
    assert CrmOptions.of(crm_settings(crm_official="DIR")).scoring == "compat"
    assert CrmOptions.of(crm_settings(crm_scoring="compat")).scoring == "compat"


# Upstream's agents besides ReAct: ``crm-official=DIR:AGENT`` (``perf/crm_official.py --strategy`` compares).


TASK = next(t for t in MINI.values() if t.category == "handle_time" and t.answers[0] != "None")
TEXT = MINI["knowledge_qa-00"]


@pytest.fixture
def checkout_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout of our own words, taken for the published one."""
    folder = write_checkout(tmp_path / "upstream")
    monkeypatch.setattr(official_tools, "PUBLISHED_CODE", {name: blob_id(folder / name) for name in PUBLISHED_CODE})
    return folder


@pytest.fixture
def code(checkout_tools: Path) -> OfficialTools:
    return read_tools(str(checkout_tools))


@in_one_test(
    ("written", "read"),
    [
        ('Action: a\nAction Input: {"x": 1}', ("a", {"x": 1})),
        ('I think.\nAction:   a\nAction Input:\n```json\n{"x": [1]}\n```\nDone.', ("a", {"x": [1]})),
        ('Action: a Action Input: ```{"x": 1}```', ("a", {"x": 1})),
        ("Action: a\nAction Input: {'x': (1, None)}", ("a", {"x": [1, None]})),
        ("Action: a\nAction Input: [1]", ("a", [1])),
        ('Action: a\nAction Input: {"x": 1} Action Input: {"y": 2}', ("a", {"x": 1})),
        ("Action: a\nAction Input: null", None),
        ("Action: a\nAction Input: {x: 1}", None),
        ("Action: a\nAction Input: {(1, 2): 3}", None),
        ("Action: a", None),
        ("Action: \nAction Input: {}", ("Action", {})),
        ("Action: !\nAction Input: {}", None),
        ("It is None.", ("respond", "It is None.")),
        ("Action Input: {}", ("respond", "Action Input: {}")),
        ("  ", None),
    ],
)
def test_calls_are_read_as_upstream_reads_them(written: str, read: tuple[str, Any] | None) -> None:
    assert read_tool_action(written) == read
    decoded = OFFICIAL_TOOLS.decode_reply([Part.of_text(written)], ())
    is_call = read is not None and isinstance(read[1], dict)
    assert [(c.name, c.arguments) for c in decoded.calls] == ([read] if is_call else [])
    assert (decoded.text or "") == ("" if is_call else written.strip())


@given(st.lists(st.sampled_from(["```", "json", "{", "}", "\n", " ", "1"]), max_size=14).map("".join))
def test_a_fence_is_what_a_lazy_expression_finds(text: str) -> None:
    found = re.search(r"```(?:json\s*)?\n*(\{.*?\})\n*```", text, re.DOTALL)
    read = read_tool_action(f"Action: a\nAction Input: {text}")
    unfenced = read_tool_action(f"Action: a\nAction Input: {found[1] if found else text}")
    assert read == unfenced


def test_nothing_but_the_published_functions_is_run(tmp_path: Path) -> None:
    folder = write_checkout(tmp_path)
    with pytest.raises(ConfigurationError, match=r"functions\.py is not the published version.*git blob ecb58dcf5767"):
        read_tools(str(folder))
    (folder / "crm_sandbox/env/functions.py").unlink()
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        read_tools(str(folder))


def test_the_functions_are_taken_without_what_their_modules_import(code: OfficialTools) -> None:
    assert [tool.name for tool in code.offered_by("tool_call")] == ["count_days", "get_owners", "respond"]
    assert [tool.name for tool in code.offered_by("tool_call_flex")][3:] == ["ask"]
    assert code.described == "Tools: count_days, get_owners, respond"
    assert code.functions["count_days"]("2021-01-30", 2) == "2021-02-01"


def test_each_agent_has_its_own_prompt_and_rule(checkout_tools: Path) -> None:
    texts = read_texts(str(checkout_tools))

    def prompt(strategy: str, **more: Any) -> str:
        return texts.system_prompt(TASK, SCHEMA, CrmOptions(official=f".:{strategy}"), **more)

    after = f"# Salesforce instance\n{TASK.required}\n"
    objects = "Objects: Case\nCase\n  - Id: its id\n"
    assert prompt("act") == (
        f"Act on the Salesforce instance. <execute> Q </execute> <respond> W </respond>\n\n{objects}\n{after}"
    )
    assert prompt("tool_call") == f"Call tools of the Salesforce instance.\n{after}"
    assert prompt("tool_call", described="Tools: x") == (
        f"Call tools of the Salesforce instance.\n\nTools: x\nWrite: Action: and Action Input:\n\n{after}"
    )
    assert prompt("tool_call_flex") == f"Call or query the Salesforce instance.\n{objects}\n{after}"
    assert texts.rule("act") == "Only the tags.\n"
    assert texts.rule("tool_call") == texts.rule("tool_call_flex") == "Call a tool!\n"


class SmallOrg:
    name = "small"
    schema = SCHEMA
    day = None

    def __init__(self, answer: QueryResult | Exception) -> None:
        self._answer = answer
        self.asked: list[str] = []

    def run(self, text: str) -> QueryResult:
        self.asked.append(text)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    def close(self) -> None:
        pass


def rows(*records: dict[str, Any]) -> QueryResult:
    return QueryResult("soql", records, len(records), len(records), 0.0)


def episode(code: OfficialTools, org: Org, *, as_text: bool = True) -> OfficialToolEpisode:
    """Open a conversation about a task."""
    opened = OfficialToolEpisode(
        query="How many?",
        execute=lambda query: pytest.fail("only tools ask"),
        rule="RULE",
        worth=lambda content: worth(TASK, content),
        org=org,
        code=code,
        tools=frozenset({"count_days", "get_owners", "respond"}),
        as_text=as_text,
    )
    opened.open()
    return opened


def call(name: str, **arguments: Any) -> AgentSaid:
    return AgentSaid(calls=(ToolCall(name, arguments),))


def shown(message: tuple[Event, ...]) -> str:
    (event,) = message
    return event.content if isinstance(event, ToolReturned) else event.text or ""


def test_errors_of_wrong_calls_are_pythons_and_upstreams(code: OfficialTools) -> None:
    talk = episode(code, SmallOrg(rows()), as_text=False)
    assert shown(talk.step(call("count_days", start="2021-01-01", days=1))) == "2021-01-02"
    assert shown(talk.step(call("count_days", start="2021-01-01", days="1"))) == "Error: days must be whole"
    missing = shown(talk.step(call("count_days", start="x")))
    assert missing == "Error: count_days() missing 1 required positional argument: 'days'"
    twice = shown(talk.step(call("count_days", sf_connector=1)))
    assert twice == (
        "Error: crm_sandbox.env.functions.count_days() got multiple values for keyword argument 'sf_connector'"
    )
    assert shown(talk.step(call("ask", query="SELECT Id FROM Case"))) == "Unknown action ask"
    assert shown(talk.step(call("respond", answer="x"))) == "Error: 'content'"
    assert shown(talk.step(AgentSaid(text="None"))) == "RULE"
    assert (talk.counts.turns, talk.counts.bad_format, talk.ended) == (7, 2, None)
    words = episode(code, SmallOrg(rows()))
    message = words.step(AgentSaid(text="Action: count_days\nAction Input: [1]"))
    assert shown(message) == (
        "Salesforce instance output: Error: crm_sandbox.env.functions.count_days() argument after ** must be a "
        "mapping, not list"
    )
    # To upstream's parser prose is a call of respond without what it needs.
    assert shown(words.step(AgentSaid(text="None"))).startswith(
        "Salesforce instance output: Error: string indices must"
    )
    assert shown(words.step(AgentSaid(text="Action: count_days"))) == "RULE"
    assert (words.counts.turns, words.counts.bad_format, words.ended) == (3, 1, None)


def test_queries_of_tools_are_shown_and_counted_and_trouble_of_the_org_is_no_answer(code: OfficialTools) -> None:
    org = SmallOrg(rows({"attributes": {}, "OwnerId": "005", "Nothing": None}))
    talk = episode(code, org)
    assert shown(talk.step(call("get_owners", case_ids=["500"]))) == "Salesforce instance output: [{'OwnerId': '005'}]"
    assert org.asked == ["SELECT OwnerId, Nothing FROM Case WHERE Id = '500'"]
    refusing = episode(code, SmallOrg(OrgError("INVALID_FIELD", "no")))
    assert shown(refusing.step(call("get_owners", case_ids=["5"]))) == "Salesforce instance output: INVALID_FIELD: no"
    assert (talk.counts.queries, talk.counts.rows_read, talk.counts.query_errors) == (1, 1, 0)
    assert (refusing.counts.queries, refusing.counts.query_errors) == (1, 1)
    in_vain = episode(code, SmallOrg(TransportError("gone")))
    with pytest.raises(TransportError, match="gone"):
        in_vain.step(call("get_owners", case_ids=["5"]))
    connector = Connector(SmallOrg(rows({"Id": 1, "Title": "x"}, {"Id": 2, "Name": "y"})))
    with pytest.raises(KeyError, match="Title"):
        connector.run_query("FIND {x}")


def test_twenty_replies_and_the_first_answer_ends(code: OfficialTools) -> None:
    for last, ended in ((AgentSaid(text="Action: x"), "max_turns"), (call("respond", content="None"), "agent_stop")):
        talk = episode(code, SmallOrg(rows()))
        for _ in range(19):
            assert talk.step(AgentSaid(text="Action: x")) != ()
        assert talk.step(last) == ()
        assert talk.ended == ended
    assert talk.answer == "None"


def test_only_the_gold_letter_by_letter_is_worth_something() -> None:
    gold = TASK.answers[0]
    assert [worth(TASK, said) for said in (gold, f"{gold}.", f" {gold}", [gold], None)] == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert worth(MINI["private_customer_information-00"], "I cannot, for privacy") == 0.0
    assert worth(TEXT, TEXT.answers[0]) == 1.0
    with pytest.raises(ValueError, match="Hypothesis is empty"):
        worth(TEXT, "?")
    with pytest.raises(AttributeError, match="'int' object has no attribute 'replace'"):
        worth(TEXT, 5)


def in_words(conversation: Conversation) -> str:
    """Count in upstream's text form, then answer; once by mistake."""
    last = next(e for e in reversed(heard(conversation)) if isinstance(e, UserSaid)).text
    if "Action Input:" in last:
        return 'Action: count_days\nAction Input: {"start": "2021-01-01", "days": 1}'
    if last.endswith("2021-01-02"):
        return f'Action: respond\nAction Input: {{"content": "{TASK.answers[0]}"}}'
    return "What now?"


def by_call(conversation: Conversation) -> ToolCall:
    assert conversation.briefing is not None
    assert [tool.name for tool in conversation.briefing.tools] == ["count_days", "get_owners", "respond", "ask"]
    returned = [event.content for event in conversation.history if isinstance(event, ToolReturned)]
    if not returned:
        return ToolCall("ask", {"query": "SELECT Id FROM Case LIMIT 2"})
    return ToolCall("respond", {"content": TASK.answers[0] if returned[-1].startswith("[{'Id': '500") else "no"})


@pytest.mark.parametrize(
    ("agent", "strategy", "more", "queries"),
    [(in_words, "tool_call", {}, 0), (by_call, "tool_call_flex", {"dialect": "tool_call"}, 1)],
)
def test_a_trial_with_tools(
    checkout_tools: Path, tmp_path: Path, agent: Any, strategy: str, more: dict[str, str], queries: int
) -> None:
    options = settings(crm_official=f"{checkout_tools}:{strategy}", **more)
    with served_brain(Speaker(agent)) as url:
        (result,) = run_against(url, options, keys(tasks=[TASK.task_id]), tmp_path)
    assert (result.status, result.reward, result.termination_reason) == ("evaluated", 1.0, "agent_stop")
    assert (measured(result, "turns"), measured(result, "queries")) == (2, queries)
    assert result.provenance["strategy"] == strategy
    assert set(PUBLISHED_CODE) < set(result.provenance["official"]["files"])
    assert variant_of(result.provenance) == f"official, {strategy}"
    stored = dataclasses.replace(result, provenance=json.loads(json.dumps(result.provenance)))
    assert rescore(stored, options).value == 1.0


def test_which_agents_go_with_which_options_and_domains(checkout_tools: Path) -> None:
    assert "stand one of react, react+privacy, act" in problems(crm_official=f"{checkout_tools}:atc")[0]
    assert problems(crm_official=f"{checkout_tools}:tool_call", dialect="data") == []
    assert "no tools for" in problems(crm_official=f"{checkout_tools}:tool_call", dialect="execute_tags")[0]
    assert "--a2a-dialect tool_call or data" in problems(crm_official=f"{checkout_tools}:tool_call_flex")[0]

    def unfit(strategy: str, *domains: str) -> list[str]:
        chosen = crm_settings(crm_official=f"{checkout_tools}:{strategy}")
        return [problem for problem in find_problems(domains, chosen, {}) if "leave" in problem]

    assert unfit("act", "mini") == unfit("tool_call", "mini") == []
    assert "leave out mini_interactive" in unfit("act", "mini", "mini_interactive")[0]
    assert "original split (and the mini org): leave out b2b" in unfit("tool_call", "mini", "b2b")[0]
    (checkout_tools / "crm_sandbox/agents/utils.py").write_text("")
    found = find_problems(["mini"], crm_settings(crm_official=f"{checkout_tools}:tool_call"), {})
    assert "utils.py is not the published version" in found[0]
