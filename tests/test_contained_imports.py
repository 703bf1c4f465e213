"""What tau2 and LiteLLM do to the process around them: nothing."""

import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import dotenv
import pytest
import watched_trial

from pytest_a2a_bench.benchmarks.tau2 import index
from pytest_a2a_bench.language_models import contained_imports

LINE = "A2A_CANARY=sung\nOPENAI_API_KEY=sk-from-the-projects-own-file\n"


def run(directory: Path, *command: str) -> subprocess.CompletedProcess[str]:
    unset = ("LITELLM_LOCAL_MODEL_COST_MAP", "TIKTOKEN_CACHE_DIR", "A2A_CANARY", "OPENAI_API_KEY")
    environ = {k: v for k, v in os.environ.items() if k not in unset} | {"PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *command], cwd=directory, env=environ, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_a_trial_leaves_environment_files_and_network_alone(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(LINE)
    plain = "import sys, os, dotenv; sys.frozen = True; dotenv.load_dotenv(); print(os.environ['A2A_CANARY'])"
    assert run(tmp_path, "-c", plain).stdout == "sung\n"  # it would be found
    task = index.load_tasks("telecom")[0].task_id
    done = run(tmp_path, str(Path(watched_trial.__file__)), task)
    assert "site-packages" not in done.stdout
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    # Python tries once whether it can write to its directory for temporary files.
    harmless = (tempfile.gettempdir() + os.sep, os.devnull)
    found["written"] = [w for w in found["written"] if not w.split()[-1].startswith(harmless)]
    assert found == {"written": [], "network": [], "environment": []}
    assert not [w for w in json.loads(done.stdout)["written"] if str(tmp_path) in w]
    assert [p.name for p in tmp_path.iterdir()] == [".env"]


def test_other_threads_may_load_their_env_file_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("A2A_CANARY", raising=False)
    (tmp_path / ".env").write_text(LINE)
    with contained_imports():
        assert dotenv.load_dotenv(tmp_path / ".env") is False
        kept = dotenv.load_dotenv
        thread = threading.Thread(target=dotenv.load_dotenv, args=(tmp_path / ".env",))
        thread.start()
        thread.join()
        assert os.environ.pop("A2A_CANARY") == "sung"
        os.environ.pop("OPENAI_API_KEY")
    assert kept is not dotenv.load_dotenv
    assert kept(tmp_path / ".env")
    assert os.environ.pop("A2A_CANARY") == "sung"
    os.environ.pop("OPENAI_API_KEY")


def test_settings_of_the_user_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "False")
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    with contained_imports():
        assert os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] == "False"
        os.environ["TIKTOKEN_CACHE_DIR"] = "somewhere"
    assert os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] == "False"
    assert "TIKTOKEN_CACHE_DIR" not in os.environ
