from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.plugin.run.options import Resolution, every_option, resolve
from pytest_a2a_bench.settings import Settings, without_query


def resolved(
    cli: dict[str, Any] | None = None, env: dict[str, str] | None = None, ini: dict[str, Any] | None = None
) -> Resolution:
    """Resolve options as pytest hands them over."""
    cli, ini = cli or {}, ini or {}

    def getini(name: str) -> Any:
        if isinstance(ini.get(name), int):
            raise TypeError(f"{name} expects a string, got int")
        return ini.get(name)

    config: Any = SimpleNamespace(
        getoption=lambda name, default=None: cli.get(name, default), getini=getini, rootpath=Path("/project")
    )
    return resolve(config, env or {})


def test_every_setting_has_an_option() -> None:
    core = {f.name for f in dataclasses.fields(Settings)}
    core -= {"endpoint_source", "benchmark_options", "agents", "agent", "auto"}
    assert {o.name for o in every_option()} == core | set(resolved().settings.benchmark_options)


def test_nothing_given_is_nothing_asked() -> None:
    found = resolved()
    own = {option.name: option.default for suite in registry.known() for option in suite.options}
    assert found == Resolution(Settings(benchmark_options=own))


def test_command_line_over_environment_over_ini_over_default() -> None:
    ini, env, cli = {"a2a_timeout": "1"}, {"A2A_TIMEOUT": "2"}, {"a2a_timeout": "3"}
    assert resolved(cli, env, ini).settings.timeout == 3
    assert resolved({}, env, ini).settings.timeout == 2
    assert resolved({}, {}, ini).settings.timeout == 1
    assert resolved().settings.timeout == 300


@pytest.mark.parametrize(("source", "asked"), [("cli", True), ("env", False), ("ini", True)])
def test_where_the_endpoint_comes_from(source: str, asked: bool) -> None:
    given = {
        "cli": ({"a2a_endpoint": "http://x"}, {}, {}),
        "env": ({}, {"A2A_ENDPOINT": "http://x"}, {}),
        "ini": ({}, {}, {"a2a_endpoint": "http://x"}),
    }[source]
    found = resolved(*given)
    assert (found.settings.endpoint, found.settings.endpoint_source, found.asked) == ("http://x", source, asked)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("endpoint", "https://host:8443/agent", "https://host:8443/agent"),
        ("endpoint", "builtin:oracle?latency=0.05", "builtin:oracle?latency=0.05"),
        ("timeout", "0.5", 0.5),
        ("trials", "4", 4),
        ("seed", "0", 0),
        ("wait", "0", 0.0),
        ("verify_ssl", "off", False),
        ("tag_trials", "on", True),
        ("user_llm_args", '{"temperature": 0}', {"temperature": 0}),
        ("auth_env", "MY_TOKEN", "MY_TOKEN"),
        ("split", "small", "small"),
        ("results", "out", "out"),
    ],
)
def test_good_values(name: str, text: str, value: Any) -> None:
    found = resolved({f"a2a_{name}": text})
    assert found.problems == ()
    assert getattr(found.settings, name) == value


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("endpoint", "localhost:9999", "expected an http(s):// URL or one of builtin:oracle, builtin:noop"),
        ("endpoint", "ftp://host", "expected an http(s):// URL"),
        ("endpoint", "http://", "expected an http(s):// URL"),
        ("endpoint", "http://host:port", "not a URL"),
        ("endpoint", "builtin:orcale", "no built-in agent is called 'orcale'; expected an http(s):// URL or one of"),
        ("timeout", "soon", "'soon' is not a positive number of seconds"),
        ("timeout", "0", "'0' is not a positive number"),
        ("timeout", "nan", "'nan' is not a positive number"),
        ("timeout", "inf", "'inf' is not a positive number"),
        ("wait", "-1", "'-1' is not a number of seconds, 0 or more"),
        ("trials", "0", "'0' is not a whole number of at least 1"),
        ("trials", "1.5", "'1.5' is not a whole number"),
        ("trials", "²", "is not a whole number"),
        ("concurrency", "many", "'many' is not a whole number"),
        ("protocol", "2.0", "'2.0' is not one of auto, 1.0, 0.3"),
        ("transport", "ws", "'ws' is not one of auto, jsonrpc, rest, grpc"),
        ("split", "dev", "'dev' is not one of base, train, test, full, small"),
        ("dialect", "x", "'x' is not one of auto, tool_call, agentbeats, sierra, data"),
        ("verify_ssl", "maybe", "'maybe' is not one of on, off"),
        ("user_llm_args", "{", "not JSON"),
        ("user_llm_args", "[1]", "'[1]' is not a JSON object"),
        ("results", " ", "the value is empty"),
        ("suite", [""], "no suite is named; valid are: tau2, crmarena, a2a_scenario, airline, retail, telecom, mock"),
        ("suite", [" , "], "no suite is named; valid are: tau2, "),
        (
            "suite",
            ["airlines"],
            "unknown suite 'airlines'; valid are: tau2, crmarena, a2a_scenario, airline, retail, telecom, mock",
        ),
    ],
)
def test_wrong_values_say_what_is_valid(name: str, text: Any, problem: str) -> None:
    (found,) = resolved({f"a2a_{name}": text}).problems
    assert found.startswith(f"--a2a-{name.replace('_', '-')}: ")
    assert problem in found


def test_all_wrong_values_are_reported_together() -> None:
    found = resolved({"a2a_timeout": "x", "a2a_trials": "y"}, {"A2A_SEED": "z"}, {"a2a_history": "w", "a2a_wait": 5})
    starts = [p.partition(": ")[0] for p in found.problems]
    assert starts == [
        "--a2a-timeout",
        "ini a2a_history",
        "--a2a-trials",
        "environment variable A2A_SEED",
        "ini a2a_wait",
    ]


@pytest.mark.parametrize("given", ["http://me:s3cret@host", "https://s3cret@host"])
def test_a_secret_in_a_url_is_refused_and_not_repeated(given: str) -> None:
    found = resolved({"a2a_endpoint": given})
    assert found.settings.endpoint is None
    assert "credentials" in found.problems[0]
    assert "s3cret" not in repr(found)


@pytest.mark.parametrize(
    "arguments",
    [
        {"api_key": "s3cret"},
        {"api_token": "s3cret"},
        {"azure_api_key": "s3cret"},
        {"aws_secret_access_key": "s3cret"},
        {"temperature": 0, "extra_headers": {"Authorization": "Bearer s3cret"}},
        {"extra_headers": {"X-Api-Key": "s3cret"}},
        {"fallbacks": [{"model": "m", "apiKey": "s3cret"}]},
    ],
)
def test_a_secret_among_a_models_arguments_is_refused_and_not_repeated(arguments: dict[str, Any]) -> None:
    found = resolved({"a2a_user_llm_args": json.dumps(arguments)})
    assert found.settings.user_llm_args == {}
    (problem,) = found.problems
    assert "must not hold" in problem
    assert "environment variable" in problem
    assert "s3cret" not in repr(found)


def test_arguments_that_only_sound_secret_are_taken() -> None:
    arguments = {"max_tokens": 5, "max_completion_tokens": 5, "logit_bias": {"12": 1}, "extra_headers": {"X-Team": "k"}}
    assert resolved({"a2a_user_llm_args": json.dumps(arguments)}).settings.user_llm_args == arguments


def test_an_endpoints_query_is_not_repeated() -> None:
    assert "s3cret" not in resolved({"a2a_endpoint": "ftp://host/?key=s3cret"}).problems[0]
    text = "https://host/a?key=s3cret: GET https://host/a/card?key=s3cret failed"
    shown = without_query(text, "https://host/a?key=s3cret")
    assert shown == "https://host/a?...: GET https://host/a/card?... failed"
    assert without_query("builtin:oracle?latency=1", "builtin:oracle?latency=1") == "builtin:oracle?latency=1"


def test_a_token_given_as_the_name_of_a_variable_is_not_repeated() -> None:
    assert "sk-12345" not in repr(resolved({"a2a_auth_env": "sk-12345"}))


def test_an_llm_user_needs_a_model() -> None:
    assert resolved({"a2a_user": "llm"}).problems == (
        "--a2a-user=llm needs a model: add --a2a-user-llm MODEL (any LiteLLM name)",
    )
    assert resolved({"a2a_user": "llm", "a2a_user_llm": "m"}).settings.user_kind == "llm"


@pytest.mark.parametrize("name", ["oracle", "readonly"])
def test_agents_that_need_the_trial_are_told(name: str) -> None:
    assert resolved({"a2a_endpoint": f"builtin:{name}"}).settings.tag_trials
    assert not resolved({"a2a_endpoint": "builtin:noop"}).settings.tag_trials


@pytest.mark.parametrize("tx", ["ssh=host//python=python3", "2*socket=10.0.0.1:8888", "popen//ssh=host"])
def test_a_built_in_agent_cannot_be_reached_from_other_machines(tx: str) -> None:
    (found,) = resolved({"a2a_endpoint": "builtin:oracle", "tx": ["popen", tx]}).problems
    assert "a2a-bench agent" in found
    assert not resolved({"a2a_endpoint": "builtin:oracle", "tx": ["2*popen//python=python3.12"]}).problems


def test_suites_are_a_list_and_asked_for_wherever_they_come_from() -> None:
    assert resolved({"a2a_suite": ["airline,mock", "airline"]}).settings.suites == ("airline", "mock")
    assert resolved(env={"A2A_SUITE": "tau2"}).asked


def test_results_in_ini_are_beside_it() -> None:
    assert resolved(ini={"a2a_results": "out"}).settings.results == "/project/out"


def test_settings_survive_the_way_to_a_worker() -> None:
    settings = resolved(
        {"a2a_suite": ["mock"], "a2a_user_llm_args": '{"a": [1]}', "a2a_endpoint": "builtin:noop"}
    ).settings
    assert Settings.from_json(settings.to_json()) == settings
