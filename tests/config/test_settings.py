import dataclasses
import json
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import resolved_settings
from one_test import in_one_test

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.config.load import CORE
from pytest_a2a_bench.config.settings import GROUPS, Settings, without_query
from pytest_a2a_bench.plugin import items, options
from pytest_a2a_bench.plugin.resolve import Resolution

Resolve = Callable[..., Resolution]


@pytest.fixture
def resolved(tmp_path: Path) -> Resolve:
    """Resolve settings in an empty project."""
    return partial(resolved_settings.resolved, tmp_path)


def test_every_setting_is_described() -> None:
    core = {f.name for f in dataclasses.fields(Settings)}
    assert set(CORE) == core - {
        *("endpoint_source", "acts_source", "benchmark_options", "agents", "agent", "auto", "noise_events")
    }
    assert all(
        setting.help[0].isupper() or setting.name == "tau2_data" for setting in registry.every_setting().values()
    )


def test_options_repeat_the_settings() -> None:
    """The literal table of options says exactly what the model says, in the model's groups and order."""
    parser = pytest.Parser(_ispytest=True)
    options.add_options(parser)
    known = registry.every_setting()
    groups: dict[str, list[str]] = {}
    for group in parser._groups:
        for option in group.options:
            name = option.attrs().get("dest", "")
            if not name.startswith("a2a_") or name in ("a2a_set", "a2a_config", "a2a_auth_token"):
                continue
            setting, attributes = known[name.removeprefix("a2a_")], option.attrs()
            default = "" if setting.shown_default in ("none", "off") else f" (default: {setting.shown_default})"
            assert option.names() == [f"--a2a-{setting.key}"]
            assert attributes["help"] == setting.help + default
            if attributes.get("metavar") is not None or not isinstance(setting.default, bool):
                assert attributes["metavar"] == setting.metavar
            groups.setdefault(str(group._arggroup.title), []).append(setting.name)
    assert list(groups) == list(GROUPS.values())
    positions = [list(CORE).index(name) for names in groups.values() for name in names if name in CORE]
    assert positions == sorted(positions)
    assert 40 <= len([name for names in groups.values() for name in names]) <= 50


def test_markers_repeat_the_suites() -> None:
    assert options.markers() == items.lines(registry.built_in())


def test_nothing_given_is_nothing_asked(resolved: Resolve) -> None:
    found = resolved()
    own = {option.name: option.default for suite in registry.known() for option in suite.options}
    assert found == Resolution(Settings(benchmark_options=own))


def test_command_line_over_environment_over_ini_over_default(resolved: Resolve) -> None:
    ini, env, cli = {"timeout": 1}, {"A2A_TIMEOUT": "2"}, {"a2a_timeout": "3"}
    assert resolved(cli, environ=env, table=ini).settings.timeout == 3
    assert resolved({}, environ=env, table=ini).settings.timeout == 2
    assert resolved({}, table=ini).settings.timeout == 1


@pytest.mark.parametrize(("source", "asked"), [("cli", True), ("env", False), ("table", True)])
def test_where_the_endpoint_comes_from(resolved: Resolve, source: str, asked: bool) -> None:
    given = {
        "cli": {"options": {"a2a_endpoint": "http://x"}},
        "env": {"environ": {"A2A_ENDPOINT": "http://x"}},
        "table": {"table": {"endpoint": "http://x"}},
    }[source]
    found = resolved(**given)
    assert (found.settings.endpoint, found.settings.endpoint_source, found.asked) == ("http://x", source, asked)


@in_one_test(
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
def test_good_values(resolved: Resolve, name: str, text: str, value: Any) -> None:
    found = resolved({f"a2a_{name}": text})
    assert found.problems == ()
    assert getattr(found.settings, name) == value


@in_one_test(
    ("name", "text", "problem"),
    [
        ("endpoint", "localhost:9999", "expected an http(s):// URL or one of builtin:oracle, builtin:noop"),
        ("endpoint", "ftp://host", "expected an http(s):// URL"),
        ("endpoint", "http://", "expected an http(s):// URL"),
        ("endpoint", "http://host:port", "is not an endpoint"),
        ("endpoint", "127.0.0.1:9911/a", "; did you mean 'http://127.0.0.1:9911/a'?"),
        ("endpoint", "agent.example", "; did you mean 'https://agent.example'?"),
        ("endpoint", "oracle", "; did you mean 'builtin:oracle'?"),
        ("endpoint", "builtin:orcale", "no built-in agent is called 'orcale'; expected an http(s):// URL or one of"),
        ("timeout", "soon", "'soon' is not a number above 0"),
        ("timeout", "0", "'0' is not a number above 0"),
        ("timeout", "nan", "'nan' is not a number above 0"),
        ("timeout", "inf", "'inf' is not a number above 0"),
        ("wait", "-1", "'-1' is not a number of at least 0"),
        ("trials", "0", "'0' is not a whole number of at least 1"),
        ("trials", "1.5", "'1.5' is not a whole number"),
        ("trials", "²", "is not a whole number"),
        ("concurrency", "many", "'many' is not a whole number of at least 1"),
        ("protocol", "2.0", "'2.0' is not one of auto, 1.0, 0.3"),
        ("transport", "ws", "'ws' is not one of auto, jsonrpc, rest, grpc"),
        ("split", "dev", "'dev' is not one of base, train, test, full, small"),
        ("dialect", "x", "'x' is not one of auto, tool_call, tool_list, agentbeats, sierra, data"),
        ("verify_ssl", "maybe", "'maybe' is not on or off"),
        ("user_llm_args", "{", "not JSON"),
        ("user_llm_args", "[1]", "'[1]' is not a JSON object"),
        ("user", "llm", "'llm' is not one of scripted, llm:MODEL, a2a:URL"),
        ("user", "a2a:ftp://x", "is not an endpoint"),
        ("user", "a2a:builtin:oracle", "no built-in agent plays a user"),
        ("tools", "native", "'native' is not one of text, mcp"),
        ("noise", "tool-eror=0.1", "'tool-eror' is no kind of noise; the kinds are tool-error, tool-timeout"),
        ("noise", "tool-error", "tool-error has no rate; write tool-error=RATE"),
        ("noise", "wrong=2", "wrong=2 is not a share of the calls above 0 and up to 1"),
        ("noise", "user=loud", "user=loud: users are terse, chatty, typos, impatient, changes-mind"),
        ("trials", "auto:0", "and neither auto nor auto:N"),
        ("trials", "auto:", "and neither auto nor auto:N"),
        ("trials", "auto:x", "and neither auto nor auto:N"),
        ("trials", "many", "and neither auto nor auto:N"),
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
def test_wrong_values_say_what_is_valid(resolved: Resolve, name: str, text: Any, problem: str) -> None:
    (found,) = resolved({f"a2a_{name}": text}).problems
    assert found.startswith(f"--a2a-{name.replace('_', '-')}: ")
    assert problem in found


def test_all_wrong_values_are_reported_together(resolved: Resolve) -> None:
    options = {"a2a_timeout": "x", "a2a_trials": "y", "a2a_set": ["max-steps=0", "max-stps=1", "breaker"]}
    table = {"history": "w", "wait": True, "timout": 3}
    found = resolved(options, environ={"A2A_SEED": "z"}, table=table)
    assert sorted(problem.partition(": '")[0].partition("; did")[0] for problem in found.problems) == [
        "--a2a-set breaker: expected KEY=VALUE, such as --a2a-set max-steps=50",
        "--a2a-set max-steps",
        "--a2a-set max-stps: there is no such setting",
        "--a2a-timeout",
        "--a2a-trials",
        "A2A_SEED",
        "pyproject.toml: history",
        "pyproject.toml: timout: there is no such setting",
        "pyproject.toml: wait: true is not a number of at least 0",
    ]


@in_one_test(
    ("name", "text", "said"),
    [
        ("endpoint", "http://me:s3cret@host", "credentials"),
        ("endpoint", "https://s3cret@host", "credentials"),
        ("user_llm_args", '{"api_key": "s3cret"}', "must not hold"),
        ("user_llm_args", '{"api_token": "s3cret"}', "must not hold"),
        ("user_llm_args", '{"azure_api_key": "s3cret"}', "must not hold"),
        ("user_llm_args", '{"aws_secret_access_key": "s3cret"}', "must not hold"),
        ("user_llm_args", '{"temperature": 0, "extra_headers": {"Authorization": "Bearer s3cret"}}', "must not hold"),
        ("user_llm_args", '{"extra_headers": {"X-Api-Key": "s3cret"}}', "must not hold"),
        ("user_llm_args", '{"fallbacks": [{"model": "m", "apiKey": "s3cret"}]}', "must not hold"),
        ("auth_env", "sk-s3cret", "not the name of an"),
    ],
)
def test_a_secret_in_a_value_is_refused_and_not_repeated(resolved: Resolve, name: str, text: str, said: str) -> None:
    found = resolved({f"a2a_{name}": text})
    (problem,) = found.problems
    assert said in problem
    assert "environment variable" in problem
    assert getattr(found.settings, name) == getattr(Settings(), name)
    assert "s3cret" not in repr(found)


def test_arguments_that_only_sound_secret_are_taken(resolved: Resolve) -> None:
    arguments = {"max_tokens": 5, "max_completion_tokens": 5, "logit_bias": {"12": 1}, "extra_headers": {"X-Team": "k"}}
    assert resolved({"a2a_user_llm_args": json.dumps(arguments)}).settings.user_llm_args == arguments


def test_an_endpoints_query_is_not_repeated(resolved: Resolve) -> None:
    assert "s3cret" not in resolved({"a2a_endpoint": "ftp://host/?key=s3cret"}).problems[0]
    text = "https://host/a?key=s3cret: GET https://host/a/card?key=s3cret failed"
    shown = without_query(text, "https://host/a?key=s3cret")
    assert shown == "https://host/a?...: GET https://host/a/card?... failed"
    assert without_query("builtin:oracle?latency=1", "builtin:oracle?latency=1") == "builtin:oracle?latency=1"


def test_kinds_of_users(resolved: Resolve) -> None:
    found = resolved({"a2a_user": "llm:m"}).settings
    assert (found.user_kind, found.user_llm) == ("llm", "m")
    assert resolved().settings.user_kind == "scripted"


def test_agents_that_need_the_trial_are_reported(resolved: Resolve) -> None:
    for name, needs in (("oracle", True), ("readonly", True), ("noop", False)):
        assert resolved({"a2a_endpoint": f"builtin:{name}"}).settings.tag_trials is needs


@pytest.mark.parametrize("tx", ["ssh=host//python=python3", "2*socket=10.0.0.1:8888", "popen//ssh=host"])
def test_a_built_in_agent_cannot_be_reached_from_other_machines(resolved: Resolve, tx: str) -> None:
    (found,) = resolved({"a2a_endpoint": "builtin:oracle", "tx": ["popen", tx]}).problems
    assert "a2a-bench agent" in found
    assert not resolved({"a2a_endpoint": "builtin:oracle", "tx": ["2*popen//python=python3.12"]}).problems


def test_suites_are_a_list_and_asked_for_wherever_they_come_from(resolved: Resolve) -> None:
    assert resolved({"a2a_suite": ["airline,mock", "airline"]}).settings.suite == ("airline", "mock")
    assert resolved(environ={"A2A_SUITE": "tau2"}).asked


def test_several_assignments(resolved: Resolve) -> None:
    given = ["colleague=a=http://x", "colleague=b=http://y", "max-steps=3", "max-steps=4"]
    found = resolved({"a2a_set": given}).settings
    assert found.colleague == {"a": "http://x", "b": "http://y"}
    assert found.max_steps == 4


def test_paths_in_a_table_are_beside_it(resolved: Resolve, tmp_path: Path) -> None:
    assert resolved(table={"results": "out"}).settings.results == str(tmp_path / "out")


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("min-pass", 0.6, {"": 0.6}),
        ("suite", ["airline", "mock"], ("airline", "mock")),
        ("strict", True, True),
        ("breaker", False, 0),
        ("user-llm-args", '{"temperature": 0}', {"temperature": 0}),
        ("max-infra-errors", 3, 3),
    ],
)
def test_native_values_of_a_table(resolved: Resolve, key: str, value: Any, expected: Any) -> None:
    found = resolved(table={key: value})
    assert found.problems == ()
    assert getattr(found.settings, key.replace("-", "_")) == expected


def test_tables_within_the_table(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.a2a-bench.endpoint]\na = "http://a"\nb = "http://b"\n'
        '[tool.a2a-bench.min-pass]\nairline = "0.8!"\n[tool.a2a-bench.user-llm-args]\ntemperature = 0\n'
    )
    found = resolved_settings.resolved(tmp_path)
    assert found.problems == ()
    assert found.settings.agents == {"a": "http://a", "b": "http://b"}
    assert found.settings.min_pass == {"airline!": 0.8}
    assert found.settings.user_llm_args == {"temperature": 0}


@pytest.mark.parametrize("name", ["tool.a2a_bench", "tool.a2abench", "tool.pytest-a2a-bench", "a2a-bench"])
def test_a_table_whose_name_is_nearly_right_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(f"[{name}]\nmin-pass = 0.9")
    (problem,) = resolved_settings.resolved(tmp_path).problems
    assert problem == f"{path}: [{name}] is no table of settings; write [tool.a2a-bench]"
    path.write_text("[tool.a2a]\nx = 1\n[tool.pytest-benchmark]\nx = 1\n[tool.asv-bench]\nx = 1")
    assert resolved_settings.resolved(tmp_path).problems == ()


@pytest.mark.parametrize("content", ["max-steps = 7", "[tool.a2a-bench]\nmax-steps = 7"])
def test_a_file_that_an_option_names(tmp_path: Path, content: str) -> None:
    (tmp_path / "bench.toml").write_text(content)
    (tmp_path / "pyproject.toml").write_text("[tool.a2a-bench]\nmax-steps = 9")
    assert resolved_settings.resolved(tmp_path, {"a2a_config": "bench.toml"}).settings.max_steps == 7
    assert resolved_settings.resolved(tmp_path, environ={"A2A_CONFIG": "bench.toml"}).settings.max_steps == 7


def test_a_token_in_a_table_is_refused_and_not_repeated(resolved: Resolve) -> None:
    (problem,) = resolved(table={"auth-token": "s3cret"}).problems
    assert problem == (
        "pyproject.toml: auth-token: there is no such setting; a token belongs into the environment variable "
        "A2A_AUTH_TOKEN, or into one that auth-env names"
    )


def test_settings_survive_the_way_to_a_worker(resolved: Resolve) -> None:
    settings = resolved(
        {"a2a_suite": ["mock"], "a2a_user_llm_args": '{"a": [1]}', "a2a_endpoint": "builtin:noop"}
    ).settings
    assert pickle.loads(pickle.dumps(settings)) == settings


@in_one_test(
    ("variable", "near"),
    [
        ("A2A_ENDPONT", "; did you mean 'A2A_ENDPOINT'?"),
        ("A2A_TRAILS", "; did you mean 'A2A_TRIALS'?"),
        ("A2A_MINPASS", "; did you mean 'A2A_MIN_PASS'?"),
        # Names of other programs, and of ours that are no settings.
        ("A2A_HOST", None),
        ("A2A_STREAM", None),
        ("A2A_ADK_CONCURRENCY", None),
        ("A2A_AGENT_LLM", None),
        ("A2A_AUTH_TOKEN_B", None),
        ("A2A_OAUTH_CLIENT_ID", None),
        ("ENDPONT", None),
    ],
)
def test_a_variable_that_is_nearly_a_setting_is_a_problem(resolved: Resolve, variable: str, near: str | None) -> None:
    expected = (f"{variable}: there is no such setting{near}",) if near is not None else ()
    assert resolved(environ={variable: "x"}).problems == expected


def test_a_file_of_settings_that_cannot_be_read_is_a_problem_of_every_run(resolved: Resolve, tmp_path: Path) -> None:
    missing = resolved({"a2a_config": "nowhere.toml"})
    assert (missing.problems, missing.asked) == ((f"{tmp_path / 'nowhere.toml'}: no such file",), True)
    (tmp_path / "broken.toml").write_text("x = [")
    broken = resolved(environ={"A2A_CONFIG": "broken.toml"})
    assert "broken.toml: not a readable TOML file" in broken.problems[0]
    assert broken.asked


def test_true_and_lists_are_no_names_and_a_setting_is_given_once(resolved: Resolve) -> None:
    table = {"results": False, "record": ["a", "b"], "min-pass": 0.5, "min_pass": 0.7}
    assert resolved(table=table).problems == (
        "pyproject.toml: min_pass: it is also given as min-pass; remove one",
        "pyproject.toml: results: false is not text",
        'pyproject.toml: record: ["a", "b"] is not text',
    )


def test_true_is_no_number_and_a_number_is_a_word(resolved: Resolve) -> None:
    found = resolved(table={"max-steps": True, "trials": True, "protocol": 1.0, "streaming": True, "suite": [1]})
    assert found.problems[:2] == (
        "pyproject.toml: max-steps: true is not a whole number of at least 1",
        "pyproject.toml: trials: 'on' is not a whole number of at least 1, and neither auto nor auto:N",
    )
    assert found.problems[2].startswith("pyproject.toml: suite: unknown suite '1'; valid are: tau2, ")
    assert (found.settings.protocol, found.settings.streaming) == ("1.0", "on")
