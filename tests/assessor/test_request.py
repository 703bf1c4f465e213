"""Reading requests: three forms, everything that is wrong told at once, nothing a stranger writes breaks it."""

import json
import logging
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from assessor_server import LOCAL, ask_raw, call, gen3, planned, served
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from made_trials import made_trial
from one_test import in_one_test

from pytest_a2a_bench.assessor import result as assessor_result
from pytest_a2a_bench.assessor.handler import build_card
from pytest_a2a_bench.assessor.request import MEMBERS, BadRequest, Evaluation, Request, parse
from pytest_a2a_bench.assessor.result import whole_numbers
from pytest_a2a_bench.assessor.terms import Terms, _settings
from pytest_a2a_bench.benchmarks.tau2 import index
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import Part, Turn

DOMAINS: dict[str, Evaluation] = {
    "airline": "tau2",
    "mock": "tau2",
    "mini": "crmarena",
    "mini_interactive": "crmarena",
    "b2b": "crmarena",
}
URL = "http://127.0.0.1:9019/"


def read(request: Any, *, as_data: bool = False) -> Request:
    text = request if isinstance(request, str) else json.dumps(request)
    return parse([Part("data", data=request) if as_data else Part.of_text(text)], DOMAINS)


def problems(request: Any) -> tuple[str, ...]:
    with pytest.raises(BadRequest) as caught:
        read(request)
    return caught.value.problems


AGENTBEATS = {
    "participants": {"agent": URL},
    "config": {
        "domain": "airline",
        "num_tasks": 4,
        "task_ids": None,
        "max_steps": 100,
        "user_llm": "openai/gpt-4.1",
        "user_llm_args": {"temperature": 0.0},
        "shard_index": 1,
        "num_shards": 2,
    },
}


def test_the_examples_of_the_card_are_requests_that_are_carried_out(tmp_path: Path) -> None:
    for skill in build_card(URL, needs_token=False).skills:
        for example in skill.examples:
            planned(Terms(tmp_path, guard=LOCAL), URL, **json.loads(example)["config"])


@in_one_test("as_data", [False, True])
def test_todays_request_of_agentbeats(as_data: bool) -> None:
    found = read(AGENTBEATS, as_data=as_data)
    assert found == Request(
        agent=URL,
        form="agentbeats",
        evaluation="tau2",
        dialect="agentbeats",
        domain="airline",
        num_tasks=4,
        max_steps=100,
        user_llm="openai/gpt-4.1",
        user_llm_args={"temperature": 0.0},
        shard_index=1,
        num_shards=2,
    )


def test_the_older_tagged_request_stands_in_prose_and_has_tau_benchs_names() -> None:
    config = {
        "env": "airline",
        "user_strategy": "llm",
        "user_model": "gpt-4o",
        "user_provider": "openai",
        "task_split": "test",
        "task_ids": [1, 2],
    }
    found = read(
        f"Your task is to assess the agent at:\n<white_agent_url>\n{URL}\n</white_agent_url>\nwith:\n"
        f"<env_config>\n{json.dumps(config, indent=2)}\n</env_config>"
    )
    assert found.form == "tagged"
    assert (found.agent, found.domain, found.split, found.task_ids) == (URL, "airline", "test", ("1", "2"))
    assert found.user_llm == "openai/gpt-4o"


def test_agents_are_spoken_to_as_the_form_has_it() -> None:
    """Agents made for AgentBeats find their tools in its first message only."""

    def dialect(domain: str, **config: object) -> str:
        return read({"participants": {"agent": URL}, "config": {"domain": domain, **config}}).dialect

    assert (dialect("mock"), dialect("mock", dialect="auto"), dialect("mini")) == ("agentbeats", "auto", "auto")
    tagged = f'<white_agent_url>{URL}</white_agent_url><env_config>{{"env": "mock"}}</env_config>'
    assert read(tagged).dialect == "sierra"
    assert read({"white_agent_url": URL, "domain": "mock"}).dialect == "auto"


def test_the_flat_request_is_crmarenas() -> None:
    found = read({"white_agent_url": URL, "task_category": "all", "max_tasks": 5, "interactive": True})
    assert (found.form, found.evaluation, found.domain) == ("flat", "crmarena", "mini_interactive")
    assert (found.num_tasks, found.max_turns, found.max_user_turns) == (5, None, None)
    # The words that agents wait for which were made for its document.
    assert found.dialect == "crm_observation"
    assert read({"white_agent_url": URL, "dialect": "crm_action"}).dialect == "crm_action"
    chosen = read({"white_agent_url": URL, "task_category": ["handle_time"], "max_turns": 3, "org_type": "b2b"})
    assert (chosen.task_categories, chosen.max_turns, chosen.domain) == (("handle_time",), 3, "b2b")


@in_one_test(
    ("given", "read_as"),
    [("a,b", ("a", "b")), ("a, b ,a", ("a", "b")), ("a", ("a",)), ("all", ()), (["b", "all"], ()), ("a,all", ())],
)
def test_categories_and_tasks_are_a_list_or_a_text_with_commas(given: Any, read_as: tuple[str, ...]) -> None:
    assert read({"white_agent_url": URL, "task_category": given}).task_categories == read_as
    if read_as and "all" not in given:
        assert read({"white_agent_url": URL, "domain": "mock", "task_ids": given}).task_ids == read_as
    assert read({"white_agent_url": URL, "domain": "mock", "task_ids": 3.0}).task_ids == ("3",)


def test_conformance_needs_no_domain() -> None:
    for config in ({"evaluation": "conformance"}, {"domain": "conformance"}):
        assert read({"participants": {"agent": URL}, "config": config}).evaluation == "conformance"


def test_every_problem_is_named_at_once() -> None:
    request = {
        "participants": {"agent": "ftp://x", "judge": URL},
        "config": {"domain": "mars", "num_tasks": 0, "api_base": "http://evil", "max_turns": 4, "shard_index": 2},
        "extra": 1,
    }
    found = "\n".join(problems(request))
    for word in ("'judge'", "ftp://x", "'mars'", "num_tasks is 0", "'api_base'", "'extra'", "shard_index is 2"):
        assert word in found, found


@in_one_test(
    ("request_", "received"),
    [
        ("Hello", "this is no request"),
        ("[1]", "this is no request"),
        ("[" * 5000, "this is no request"),
        ({"config": {}}, "names no agent"),
        ({"participants": {}}, "participants is an object"),
        ({"participants": {"agent": 7}, "config": {"domain": "mock"}}, "participants.agent is 7"),
        ({"participants": {"agent": URL}, "config": {}}, "config.domain is missing"),
        ({"participants": {"agent": URL}, "config": []}, "config is a list"),
        ({"participants": {"agent": "http://u:p@h/"}, "config": {"domain": "mock"}}, "credentials"),
        ({"participants": {"agent": "http://h\n/"}, "config": {"domain": "mock"}}, "the agent's URL is"),
        ({"white_agent_url": None}, "white_agent_url is null"),
        (
            {"participants": {"agent": URL}, "config": {"domain": "mock", "user_llm_args": {"api_base": "http://e"}}},
            "user_llm_args.api_base is not known",
        ),
        ({"participants": {"agent": URL}, "config": {"domain": "mock", "num_tasks": True}}, "num_tasks is True"),
        ({"participants": {"agent": URL}, "config": {"domain": "mock", "max_turns": 4}}, "means nothing to tau2"),
        ({"participants": {"agent": URL}, "config": {"domain": "mock", "evaluation": "crmarena"}}, "belongs to tau2"),
        (
            {"participants": {"agent": URL}, "config": {"domain": "mock", "num_tasks": 1, "max_tasks": 2}},
            "max_tasks contradicts num_tasks",
        ),
        ("<white_agent_url>http://a/</white_agent_url><env_config>x</env_config>", "<env_config>"),
    ],
)
def test_refusals(request_: Any, received: str) -> None:
    found = problems(request_)
    assert any(received in problem for problem in found), found


@in_one_test(
    ("config", "received"),
    [
        (r'{"domain": "mock", "\ud800": 1}', "is not known"),
        ('{"domain": "mock", "num_task": 1}', "'num_task' is not known; did you mean 'num_tasks'?"),
        (r'{"domain": "\ud800"}', "domain is '\\ud800'; expected a text"),
        (r'{"domain": "mock", "user_llm_args": {"\ud800": 1}}', "user_llm_args"),
        ('{"domain": "mock", "user_llm_args": {"temperature": NaN}}', "user_llm_args.temperature is nan"),
        ('{"domain": "mock", "timeout": Infinity}', "timeout is inf"),
        ('{"domain": "mock", "num_tasks": 1e400}', "num_tasks is inf"),
        (f'{{"domain": "mock", "num_tasks": {"9" * 400}}}', "num_tasks is 9"),
        ('{"domain": "mock", "task_ids": [1, true]}', "task_ids.1 is True; expected a text"),
    ],
)
def test_json_that_only_python_reads_is_refused(config: str, received: str) -> None:
    found = problems(f'{{"participants": {{"agent": "{URL}"}}, "config": {config}}}')
    assert any(received in problem for problem in found), found


def test_a_request_too_long_to_read_is_refused() -> None:
    assert "characters" in problems({"participants": {"agent": URL}, "config": {"domain": "m" * 70_000}})[0]


def test_two_requests_in_a_message_are_refused() -> None:
    with pytest.raises(BadRequest, match="2 JSON objects"):
        parse([Part("data", data=AGENTBEATS), Part.of_text(json.dumps(AGENTBEATS))], DOMAINS)


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
CONFIGS = st.dictionaries(st.sampled_from([*MEMBERS, "other"]), ANY_JSON, max_size=8)


@settings(max_examples=examples(100))
@given(config=CONFIGS | ANY_JSON, participants=st.just({"agent": URL}) | ANY_JSON, extra=st.booleans())
def test_any_request_is_read_or_its_problems_are_reported(config: Any, participants: Any, extra: bool) -> None:
    request = {"participants": participants, "config": config, **({"more": 1} if extra else {})}
    received: tuple[str, ...] = ()
    found: Request | None
    try:
        found = parse([Part("data", data=request)], DOMAINS)
    except BadRequest as error:
        found, received = None, error.problems
    if found is None:
        assert received
        assert all(problem.strip() and "\n" not in problem for problem in received)
    else:
        assert found.domain in DOMAINS or found.evaluation == "conformance"
        assert Request.from_json(json.loads(json.dumps(found.to_json()))) == found


# --- what the operator offers -----------------------------------------------------------------------------------------


def test_settings_of_a_run_may_be_asked_for(tmp_path: Path) -> None:
    terms = Terms(tmp_path)
    asked: dict[str, Any] = {
        "history": "full",
        "protocol": "0.3",
        "transport": "rest",
        "streaming": "on",
        "user_retry": 2,
    }
    made = planned(terms, domain="mock", num_tasks=1, max_errors=3, **asked).settings
    assert {name: getattr(made, name) for name in asked} == asked
    assert made.max_errors == 3
    usual = planned(terms, domain="mock", num_tasks=1).settings
    for name in (*asked, "max_errors"):
        assert getattr(usual, name) == getattr(Settings(), name), name
    options = planned(terms, domain="mini", num_tasks=1, scoring="fixed", aided=True, drift="low", rot=True).settings
    chosen = {f"crm_{name}": options.benchmark_options[f"crm_{name}"] for name in ("scoring", "aided", "drift", "rot")}
    assert chosen == {"crm_scoring": "fixed", "crm_aided": True, "crm_drift": "low", "crm_rot": True}
    assert planned(terms, domain="mini", num_tasks=1, drift="none").settings.benchmark_options["crm_drift"] is None


def test_retrievals_are_those_that_are_offered(tmp_path: Path) -> None:
    terms = Terms(tmp_path, retrievals=("bm25",))
    made = planned(terms, domain="mock", num_tasks=1, retrieval_config="bm25").settings
    assert made.benchmark_options["retrieval"] == "bm25"
    with pytest.raises(BadRequest) as caught:
        planned(terms, domain="mock", num_tasks=1, retrieval="alltools", agent_token="HOME")
    for text in ("retrieval is 'alltools'; this assessor offers bm25", "agent_token is not the name of a token"):
        assert text in str(caught.value)
    with pytest.raises(BadRequest, match="none: leave it out, and the usual one is used"):
        planned(Terms(tmp_path), domain="mock", num_tasks=1, retrieval="bm25")


def test_the_operators_data_of_tau2_are_those_of_every_assessment(tmp_path: Path) -> None:
    data = str(index.find_installation().data)
    terms = Terms(tmp_path, settings=Settings(concurrency=4, benchmark_options={"tau2_data": data}))
    assert planned(terms, domain="mock", num_tasks=1).settings.benchmark_options["tau2_data"] == data


@pytest.mark.parametrize(
    ("offered", "is_private", "used"),
    [
        ((), False, "offline"),
        ((), True, None),
        (("bm25", "alltools"), False, "bm25"),
        (("alltools",), True, "alltools"),
    ],
)
def test_nobody_elsewhere_gets_a_shell_that_is_not_offered(
    tmp_path: Path, offered: tuple[str, ...], is_private: bool, used: str | None
) -> None:
    terms = Terms(tmp_path, retrievals=offered, is_private=is_private)
    banking = read(AGENTBEATS).model_copy(update={"domain": "banking_knowledge", "user_llm": None})
    assert _settings(banking, terms).benchmark_options["retrieval"] == used
    # It is part of what results are known by: nothing is said to domains that have no documents.
    assert planned(terms, domain="mock", num_tasks=1).settings.benchmark_options["retrieval"] is None


# Callers' mistakes on the wire: answers name the method or the field, and nothing writes a traceback into the log.


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(Terms(tmp_path_factory.mktemp("wire") / "results", guard=LOCAL)) as found:
        yield found


def message(**members: Any) -> dict[str, Any]:
    """Return a message; None leaves a member out."""
    return {name: value for name, value in members.items() if value is not None}


old = partial(message, kind="message", role="user", messageId="m", parts=[{"kind": "text", "text": "x"}])
"""Returns a message of A2A 0.3."""
new = partial(message, role="ROLE_USER", messageId="m", parts=[{"text": "x"}])
"""Returns a message of A2A 1.0."""


def error_of(url: str, method: str, message: dict[str, Any]) -> dict[str, Any]:
    return dict(call(url, method, {"message": message})["error"])


@in_one_test("path", ["", "a2a/messages"])
def test_a_method_that_is_none_is_answered_with_the_one_that_is_meant(url: str, path: str) -> None:
    error = error_of(f"{url}{path}", "send_message", old())
    assert error["code"] == -32601
    assert error["message"].endswith("did you mean SendMessage (A2A 1.0) or message/send (A2A 0.3)?")
    assert "there are SendMessage, " in error_of(f"{url}{path}", "xyz", old())["message"]


def test_an_empty_text_is_no_request_and_does_no_harm_beside_one(url: str) -> None:
    empty = {"kind": "text", "text": ""}
    for parts, said in (([empty], "this is no request"), ([empty, {"kind": "data", "data": {}}], "names no agent")):
        task = call(url, "message/send", {"message": old(parts=parts)})["result"]
        assert said in task["status"]["message"]["parts"][0]["text"]


@in_one_test(
    ("method", "message", "field"),
    [
        ("message/send", old(role="agent"), "message.role"),
        ("message/stream", old(role="agent"), "message.role"),
        ("message/send", old(role="boss"), "message.role"),
        ("message/send", old(messageId=None), "message.messageId"),
        ("message/send", old(contextId=7), "message.contextId"),
        ("message/send", old(parts=[]), "message.parts"),
        ("message/send", old(parts=None), "message.parts"),
        ("SendMessage", new(role="ROLE_AGENT"), "message.role"),
        ("SendStreamingMessage", new(role="ROLE_AGENT"), "message.role"),
        ("SendMessage", new(role=2), "message.role"),
        ("SendMessage", new(messageId=None), "message.message_id"),
        ("SendMessage", new(parts=[{"raw": "%"}]), "message.parts[0].raw"),
    ],
)
def test_a_callers_mistake_names_its_field(
    url: str, method: str, message: dict[str, Any], field: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        error = error_of(url, method, message)
    assert (error["code"], f'"field": "{field}"' in json.dumps(error)) == (-32602, True), error
    assert not [record for record in caplog.records if record.exc_info]


def test_rest_names_it_too(url: str) -> None:
    for version, path, message in (
        ("1.0", "rest/message:send", new(role="ROLE_AGENT")),
        ("0.3", "rest/v1/message:send", old(role="agent")),
    ):
        answer = httpx.post(f"{url}{path}", json={"message": message}, headers={"A2A-Version": version})
        assert (answer.status_code, "message.role is" in answer.text) == (400, True), answer.text


def test_older_clients_find_the_card(url: str) -> None:
    paths = (".well-known/agent-card.json", ".well-known/agent.json")
    first, second = (httpx.get(url + path).json() for path in paths)
    assert first == second


def test_whole_numbers_are_whole(url: str, oracle_url: str) -> None:
    assert whole_numbers('{"a": 20.0, "b": [0.5, -0.0, 1e300], "c": "2.0"}') == '{"a":20,"b":[0.5,0,1e+300],"c":"2.0"}'
    request = gen3(oracle_url, domain="mock", num_tasks=1, tag_trials=True)
    answer = ask_raw(url, request)
    in_0_3 = call(url, "tasks/get", {"id": answer["id"]})["result"]
    rest = httpx.get(f"{url}rest/tasks/{answer['id']}", headers={"A2A-Version": "1.0"}).json()
    for task in (answer, in_0_3, rest):
        result = task["artifacts"][0]["parts"][1]["data"]
        numbers = (result["score"], result["max_score"], result["results"][0]["num_turns"], result["errors"]["count"])
        assert all(type(number) is int for number in numbers), result
        assert type(result["intervals"]["pass_rate"]["low"]) is float


def test_the_summary_names_an_agent_that_calls_no_tool_once_and_how_tools_were_described() -> None:
    keys = [f"tau2/mock/task_{number}#0" for number in range(3)]
    said: dict[str, Any] = {"transcript": (Turn("agent", "hello"),), "turn_latencies": (0.1,), "dialect": "agentbeats"}
    results = tuple(made_trial(key, success=False, **said, provenance={"dialect_option": "agentbeats"}) for key in keys)
    found = SimpleNamespace(
        results=results,
        plan=SimpleNamespace(request=SimpleNamespace(domain="mock")),
        agent="Hello 1.0.0",
        interface="A2A 1.0 jsonrpc",
        seconds=1.0,
    )
    lines = list(assessor_result._trial_lines(cast("Any", found)))
    assert lines[1].startswith("the agent called no tool in any of 3 conversations, of which 0 passed")
    assert "in the dialect 'agentbeats'" in lines[2]
    assert sum("called no tool" in line for line in lines) == 1
