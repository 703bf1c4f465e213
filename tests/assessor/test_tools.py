"""Assessments in which the agent calls its tools over MCP: who may ask for that, and what comes of it."""

from pathlib import Path
from typing import Any

import pytest
from assessor_server import LOCAL, Caller, gen3, planned, served

from pytest_a2a_bench.assessor.request import BadRequest
from pytest_a2a_bench.assessor.terms import Terms
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.results import manifest

ASKED = {"domain": "mock", "num_tasks": 1, "tools": "mcp"}


def settings(terms: Terms, agent: str, **config: Any) -> Settings:
    return planned(terms, agent, **{**ASKED, **config}).settings


def test_tools_are_served_to_agents_that_reach_them(tmp_path: Path) -> None:
    near = settings(Terms(tmp_path), "http://127.0.0.1:9/")
    assert (near.tools, near.mcp_bind, near.mcp_url) == ("mcp", None, None)
    with pytest.raises(BadRequest, match=r"only \(setting mcp-bind\)"):
        settings(Terms(tmp_path), "http://agent.example/")
    offered = Terms(
        tmp_path, settings=Settings(concurrency=4, mcp_bind="0.0.0.0:8765", mcp_url="https://bench.example")
    )
    far = settings(offered, "http://agent.example/")
    assert (far.tools, far.mcp_bind, far.mcp_url) == ("mcp", "0.0.0.0:8765", "https://bench.example")
    in_text = settings(offered, "http://agent.example/", tools="text")
    assert in_text == settings(Terms(tmp_path), "http://agent.example/", tools="text")
    with pytest.raises(BadRequest, match="dialect says how calls are written"):
        settings(offered, "http://agent.example/", dialect="sierra")
    with pytest.raises(BadRequest, match="one of text, mcp"):
        settings(offered, "http://agent.example/", tools="native")


def test_an_assessment_by_the_other_door(tmp_path: Path, oracle_url: str) -> None:
    with served(Terms(tmp_path / "results", guard=LOCAL)) as url:
        received = Caller(url).ask(gen3(oracle_url, tag_trials=True, **{**ASKED, "num_tasks": 2}))
    assert received.state == "completed"
    assert (received.result["score"], received.result["max_score"], received.result["errors"]["count"]) == (2, 2, 0)
    kept = manifest.load_selected(tmp_path / "results" / received.task).results
    assert [r.provenance["native_calls"] for r in kept] == [1, 1]
