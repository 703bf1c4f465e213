from __future__ import annotations

import argparse

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from one_test import in_one_test

from pytest_a2a_bench.agents.options import (
    PROTOCOLS,
    TRANSPORTS,
    AgentOptions,
    add_arguments,
    from_namespace,
    parse_spec,
)
from pytest_a2a_bench.config.settings import BUILTIN_AGENTS, DIALECTS
from pytest_a2a_bench.errors import ConfigurationError

OPTIONS = st.builds(
    AgentOptions,
    name=st.sampled_from(BUILTIN_AGENTS),
    port=st.integers(0, 65535),
    dialect=st.sampled_from(DIALECTS),
    latency=st.floats(0, 10),
    protocol=st.sampled_from(PROTOCOLS),
    transport=st.sampled_from(TRANSPORTS),
    reply=st.sampled_from(["message", "task"]),
    streaming=st.booleans(),
    model=st.none() | st.text("abc/-. ").map("m".__add__),
    llm_args=st.sampled_from([{}, {"temperature": 0.5, "stop": ["--x"]}]),
    benchmark_options=st.dictionaries(st.sampled_from(["shop_days", "shop_size"]), st.integers(100, 200)),
    players=st.sampled_from([{}, {"shop": "shop"}, {"a": "b.c", "d": "e"}]),
    contexts=st.integers(1, 10),
)


@given(OPTIONS)
@settings(max_examples=examples(100))
def test_a_command_line_says_the_same_as_the_value(options: AgentOptions) -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)

    assert from_namespace(parser.parse_args(options.to_argv())) == options


def test_the_defaults_of_command_line_and_value_agree() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)

    assert from_namespace(parser.parse_args(["oracle"])) == AgentOptions("oracle")


def test_a_spec_may_have_options() -> None:
    options = parse_spec("oracle?latency=0.05&reply=task&protocol=1.0&streaming=off&model=openai%2Fx&grpc-port=7")

    assert options == AgentOptions(
        "oracle", latency=0.05, reply="task", protocol="1.0", streaming=False, model="openai/x", grpc_port=7
    )


@in_one_test(
    ("spec", "complaint"),
    [
        ("oracel", "name='oracel': valid names are oracle, noop, readonly, llm"),
        ("", "name='': valid names are oracle"),
        ("oracle?colour=red", "no option 'colour'; valid options are host, port"),
        ("oracle?name=noop", "no option 'name'"),
        ("oracle?reply=letter", "reply='letter': Input should be 'message' or 'task'"),
        ("oracle?protocol=2.0", "protocol='2.0': Input should be 'both', '1.0' or '0.3'"),
        ("oracle?dialect=latin", "dialect='latin': valid names are auto, tool_call"),
        ("oracle?latency=slow", "latency='slow': Input should be a valid number"),
        ("oracle?latency=-1", "latency='-1': Input should be greater than or equal to 0"),
        ("oracle?latency=nan", "latency='nan': Input should be a finite number"),
        ("oracle?streaming=maybe", "streaming='maybe': Input should be a valid boolean"),
        ("oracle?port=70000", "port='70000': Input should be less than or equal to 65535"),
        ("oracle?players=shop", "players='shop': not JSON"),
        ("oracle?contexts=0", "contexts='0': Input should be greater than or equal to 1"),
        ("llm?llm_args=[1]", "llm_args: '[1]' is not a JSON object"),
        ("llm?llm_args={", "llm_args: not JSON"),
        ('llm?llm_args={"api_key": "sk-1"}', "llm_args: must not hold api_key; set the environment variable"),
    ],
)
def test_a_wrong_spec_names_the_valid_ones(spec: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_spec(spec)

    assert complaint in str(caught.value)
    assert "sk-1" not in str(caught.value)


def test_all_wrong_values_are_reported_together() -> None:
    with pytest.raises(ConfigurationError, match=r"latency=.*; protocol=.*; reply="):
        parse_spec("oracle?protocol=2&reply=no&latency=-1")
