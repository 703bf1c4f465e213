"""No call of tau2's ``calculate`` holds the process for ever, and none that ends is changed."""

from __future__ import annotations

import pytest
from one_test import in_one_test

from pytest_a2a_bench.benchmarks.tau2 import upstream
from pytest_a2a_bench.benchmarks.tau2.agent import REFUSED, defuse, is_small
from pytest_a2a_bench.model import ToolCall


@pytest.mark.parametrize(
    "expression",
    ["9**9**9**9", "2**64**64", "((((9**9)**9)**9)**9)**9", "1+(9**9**9)", "9**9**9/9**9**9", "-" * 5000 + "9**9**9"],
)
def test_endless_calculations_are_refused_by_the_tool_itself(expression: str) -> None:
    call = defuse(ToolCall("calculate", {"expression": expression}, "c1"))
    assert (call.arguments, call.id) == ({"expression": REFUSED}, "c1")
    toolkit = upstream.load().registry.get_env_constructor("retail")().tools
    with pytest.raises(ValueError, match="Invalid characters"):
        toolkit.use_tool("calculate", **call.arguments)


@in_one_test(
    "expression",
    ["1 + 1", "2 * (3.5 - 1)", "1000*(1.05)**30", "10**400/10**399", "9**-9", "((9**9)**9)**9", "2**", "**", "(" * 500],
)
def test_others_stay_as_they_are(expression: str) -> None:
    call = ToolCall("calculate", {"expression": expression})
    assert defuse(call) is call
    assert is_small(expression)


def test_other_tools_and_other_arguments_are_not_looked_at() -> None:
    for call in (
        ToolCall("think", {"expression": "9**9**9**9"}),
        ToolCall("calculate", {"expression": ["9**9**9**9"]}),
        ToolCall("calculate", {}),
    ):
        assert defuse(call) is call
