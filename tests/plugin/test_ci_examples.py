"""``example_suites/ci``: an action, a job and a script, run as those systems run them."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

EXAMPLES = Path(__file__).parents[2] / "example_suites" / "ci"

pytestmark = pytest.mark.slow  # each is a run of its own, from nothing


@pytest.fixture
def environ() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("A2A_", "PYTEST_", "GITHUB_"))}
    return kept | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def run(script: str, where: Path, environ: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-e", "-c", script, "bash", *arguments], cwd=where, env=environ, capture_output=True, text=True
    )


def action(values: dict[str, str], where: Path, environ: dict[str, str]) -> tuple[int, str, str]:
    """Run the action's gate with its inputs filled in; return exit code, outputs and job summary."""
    message: dict[str, Any] = yaml.safe_load((EXAMPLES / "action.yml").read_text(encoding="utf-8"))
    inputs = {name: values.get(name, about.get("default", "")) for name, about in message["inputs"].items()}
    (step,) = (s for s in message["runs"]["steps"] if s.get("id") == "gate")
    filled = {name: inputs[text.removeprefix("${{ inputs.").removesuffix(" }}")] for name, text in step["env"].items()}
    github = {"GITHUB_ACTIONS": "true", "GITHUB_OUTPUT": "output.txt", "GITHUB_STEP_SUMMARY": "summary.md"}
    (where / "summary.md").unlink(missing_ok=True)
    done = run(step["run"], where, environ | filled | github)
    output = (where / "output.txt").read_text(encoding="utf-8").splitlines()[-1]
    return done.returncode, output, (where / "summary.md").read_text(encoding="utf-8")


def test_the_action_gates_and_names_what_got_worse(tmp_path: Path, environ: dict[str, str]) -> None:
    mock = {
        "suite": "mock",
        "trials": "4",
        "baseline": "base.json",
        "arguments": "-k 'not impossible' --a2a-set tag-trials=on",
    }
    code, output, _ = action({**mock, "endpoint": "builtin:oracle"}, tmp_path, environ)
    assert (code, output) == (0, "verdict=pass")
    assert run("a2a-bench gate a2a-results --write-baseline base.json", tmp_path, environ).returncode == 0
    code, output, summary = action({**mock, "endpoint": "builtin:noop"}, tmp_path, environ)
    assert (code, output) == (1, "verdict=regressed")
    assert "update_task_1" in summary
    assert (tmp_path / "a2a-results" / "report.html").is_file()


def test_the_job_s_script_and_the_pre_merge_script(tmp_path: Path, environ: dict[str, str]) -> None:
    job = yaml.safe_load((EXAMPLES / "gitlab-ci.yml").read_text(encoding="utf-8"))["a2a-gate"]
    asked = environ | job["variables"] | {"SUITE": "mock", "A2A_ENDPOINT": "builtin:oracle"}
    pre_merge = f"exec sh {EXAMPLES / 'pre-merge.sh'} builtin:oracle"

    early = run(pre_merge, tmp_path, asked)
    assert (early.returncode, "a2a-bench gate a2a-results --write-baseline" in early.stderr) == (2, True)

    done = run(job["script"][-1], tmp_path, asked)
    assert done.returncode == 0, done.stdout
    assert (tmp_path / "a2a-junit.xml").is_file()
    assert run("a2a-bench gate a2a-results --write-baseline a2a-baseline.json", tmp_path, asked).returncode == 0
    late = run(pre_merge, tmp_path, asked)
    assert "9 passed" in late.stdout, late.stdout + late.stderr
