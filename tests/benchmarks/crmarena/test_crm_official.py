"""The profile ``official``: upstream's texts from a checkout, and its turns (``perf/crm_official.py`` compares)."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
from crm_checkout import write_checkout
from crm_settings import crm_settings
from crm_trials import MINI, keys, measured, one_of_each, settings
from fake_llm import FakeLLM, say
from hypothesis import given
from hypothesis import strategies as st
from trials import RunTrials

from pytest_a2a_bench.benchmarks.crmarena.actions import TOOLS
from pytest_a2a_bench.benchmarks.crmarena.dialects import OFFICIAL
from pytest_a2a_bench.benchmarks.crmarena.episode import Observation
from pytest_a2a_bench.benchmarks.crmarena.evaluation import rescore
from pytest_a2a_bench.benchmarks.crmarena.official.agents import OfficialEpisode, official_user, prepare_query
from pytest_a2a_bench.benchmarks.crmarena.official.texts import read_texts
from pytest_a2a_bench.benchmarks.crmarena.options import CrmOptions
from pytest_a2a_bench.benchmarks.crmarena.org.base import OrgError
from pytest_a2a_bench.benchmarks.crmarena.org.schema import read_published
from pytest_a2a_bench.benchmarks.crmarena.score import score
from pytest_a2a_bench.benchmarks.crmarena.score.answers import Judge
from pytest_a2a_bench.benchmarks.crmarena.suite import check_options, variant_of
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model import AgentSaid, Event, Part, ToolCall, ToolReturned, UserSaid

SCHEMA = read_published([{"object": "Case", "fields": {"Id": "its id"}}])


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return write_checkout(tmp_path / "upstream")


def test_texts_are_upstreams_own(checkout: Path) -> None:
    texts = read_texts(str(checkout))
    inside, outside = MINI["handle_time-00"], MINI["knowledge_qa-00"]
    said = texts.system_prompt(inside, SCHEMA, aided=False, privacy_aware=True)
    assert said.startswith("staff of the Salesforce instance. <execute> QUERY")
    assert "Objects: Case\nCase\n  - Id: its id\n" in said
    assert said.endswith(f"# Salesforce instance\n{inside.required}\n")
    assert texts.system_prompt(inside, SCHEMA, aided=True, privacy_aware=False).endswith(f"\n\n{inside.optional}")
    assert texts.system_prompt(outside, SCHEMA, aided=False, privacy_aware=False).startswith("customers of")
    asked = dataclasses.replace(outside, interactive=True)
    said = texts.system_prompt(asked, SCHEMA, aided=False, privacy_aware=True)
    assert said.startswith("careful customers who talk")
    assert texts.rule() == "Use the tags.\n"
    assert (texts.extractor("id"), texts.extractor("state")) == ("Read ids.", "Read states. Two letters.")
    assert texts.privacy == ("Was it refused?", "It did: \n")
    assert texts.user_instructions(inside) == (
        f"Play a user. \n\nYou want: {inside.persona} {inside.query}\n\nRules.\n"
    )
    assert texts.greeting == "Good day!"
    assert not texts.is_published


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


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("SELECT Id\nFROM Case", "SELECT Id\nFROM Case"),
        ("```sql\nSELECT Id\n  FROM Case\n```", "SELECT Id FROM Case"),
        ("look: ```SELECT Id FROM Case``` ok", "SELECT Id FROM Case"),
        ("FIND {x} IN ALL FIELDS", "FIND {x} IN ALL FIELDS"),
        ("FIND {x} ```y```", "FIND {x} ```y```"),
    ],
)
def test_queries_are_sent_as_upstream_sends_them(written: str, sent: str) -> None:
    assert prepare_query(written) == sent


@pytest.mark.parametrize("written", ["find {x}", "Find {x}", "```FIND {x}```", " FIND {x}"])
def test_a_search_in_other_letters_is_refused(written: str) -> None:
    with pytest.raises(OrgError, match="unexpected token"):
        prepare_query(written)


@pytest.mark.parametrize(
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
    told: list[Event] = [*episode.open()]
    for each in said:
        assert episode.ended is None
        told += episode.step(each)
    return told


def make(**more: Any) -> OfficialEpisode:
    return OfficialEpisode("How many?", lambda query: Observation(f"rows of {query}", 1), rule="RULE", **more)


QUERY = AgentSaid(calls=(ToolCall("execute", {"query": "Q"}),))
ANSWER = AgentSaid(calls=(ToolCall("respond", {"answer": "A"}),))
STOP = AgentSaid(calls=(ToolCall("respond", {"answer": "stop"}),))
PROSE = AgentSaid(text="None")


def test_twenty_replies_and_no_more() -> None:
    episode = make()
    told = run(episode, *[QUERY, PROSE] * 10)
    assert episode.ended == "max_turns"
    # What follows the last one is told to nobody.
    assert len(told) == 20
    assert isinstance(told[1], ToolReturned)
    assert told[2] == UserSaid("RULE")
    answering = make()
    run(answering, *[QUERY] * 19, ANSWER)
    assert (answering.ended, answering.answer) == ("agent_stop", "A")


def test_the_count_starts_anew_after_each_answer_to_the_user() -> None:
    episode = make(user=Caller())
    run(episode, *[*[QUERY] * 19, ANSWER] * 3, *[QUERY] * 19, STOP)
    assert (episode.ended, episode.counts.turns) == ("user_stop", 80)


def test_the_user_speaks_eleven_times_and_the_next_action_is_the_last() -> None:
    episode = make(user=Caller())
    told = run(episode, *[ANSWER] * 10, ANSWER)
    assert episode.ended == "max_user_turns"
    assert sum(isinstance(event, UserSaid) for event in told) == 11
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
        assert (result.status, result.dialect) == ("evaluated", "crm_official")
        assert result.provenance["profile"] == "official"
        assert result.provenance["scoring"] == "compat"
        assert result.provenance["official"]["published"] is False
        assert measured(result, "bad_format") == 0
        stored = dataclasses.replace(result, provenance=json.loads(json.dumps(result.provenance)))
        assert rescore(stored, chosen).value == result.reward
        # A line of their own in every table: they are not averaged with those of the other profile.
        assert variant_of(result.provenance) == "official"
    assert sum(result.reward or 0 for result in results) >= 2


def test_what_does_not_go_together_is_said(tmp_path: Path) -> None:
    def problems(**options: Any) -> list[str]:
        return list(check_options(crm_settings(**options), listing=False))

    assert "is not a directory" in problems(crm_official=str(tmp_path / "no"))[0]
    found = problems(crm_official=str(tmp_path), crm_scoring="fixed", crm_max_turns=3)
    assert ["scoring" in found[0], "max-turns" in found[1], len(found)] == [True, True, 2]
    assert "leave out --a2a-dialect=data" in problems(crm_official=str(tmp_path), dialect="data")[0]
    assert problems(crm_official=str(tmp_path)) == []


def test_the_profile_decides_the_scoring_where_none_is_named() -> None:
    assert CrmOptions.of(crm_settings()).scoring == "fixed"
    assert CrmOptions.of(crm_settings(crm_scoring=None)).scoring == "fixed"
    assert CrmOptions.of(crm_settings(crm_official="DIR")).scoring == "compat"
    assert CrmOptions.of(crm_settings(crm_scoring="compat")).scoring == "compat"
