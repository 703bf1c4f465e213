"""``example_suites/agents``: each is served as its file says, met, and solves a task with a model that is a script."""

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_llm import FakeLLM, Step, say
from harness import Bench, url_of

AGENTS = Path(__file__).parents[2] / "example_suites" / "agents"

pytestmark = pytest.mark.slow  # each starts a server from nothing


def think(request: dict[str, Any]) -> Step:
    """Do what the first message asks for, in the form that it shows; then talk."""
    said = [m["content"] if isinstance(m["content"], str) else json.dumps(m["content"]) for m in request["messages"]]
    if "Tool Result" in said[-1]:
        return say("It is done.")
    if re.search(r"task_1|complete", said[-1]) and "<available_tools>" in "".join(said):
        call = {"name": "update_task_status", "arguments": {"task_id": "task_1", "status": "completed"}}
        return say(json.dumps({"tool_call": call}))
    return say("What can I do for you?")


# Read before a test takes such variables away.
NODE_MODULES = os.environ.get("A2A_BENCH_NODE_MODULES", "")
NEEDS = {"adk_agent.py": "google.adk", "langgraph_agent.py": "langgraph.graph"}


@pytest.fixture(params=["sdk_agent.py", "adk_agent.py", "langgraph_agent.py", "js_agent.mjs", "js_sdk_agent.mjs"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    path = AGENTS / request.param
    program = sys.executable if path.suffix == ".py" else shutil.which("node")
    if program is None:
        pytest.skip("no node here")
    if path.name in NEEDS:
        pytest.importorskip(NEEDS[path.name])
    if path.name == "js_sdk_agent.mjs":
        if not NODE_MODULES:
            pytest.skip("no @a2a-js/sdk: A2A_BENCH_NODE_MODULES names no directory of npm's")
        # Node looks for packages beside the file.
        (tmp_path / "node_modules").symlink_to(NODE_MODULES)
        path = Path(shutil.copy(path, tmp_path))
    with FakeLLM(think) as llm, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", llm.api_base)
        patch.setenv("OPENAI_API_KEY", "key")
        with url_of(program, path) as found:
            yield found


def test_it_solves_a_task(bench: Bench, url: str) -> None:
    result = bench(f"--a2a-endpoint={url}", "a2a/mock::test_mock[update_task_1-t0]")
    result.assert_outcomes(passed=1)
