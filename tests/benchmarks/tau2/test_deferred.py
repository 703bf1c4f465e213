"""LiteLLM is imported when a model is called, and then is set up as tau2 set it up."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

DEFERRED = """
import sys
from pytest_a2a_bench.benchmarks.tau2 import upstream
upstream.load()
assert "tau2.utils.llm_utils" in sys.modules
assert not [m for m in sys.modules if m.startswith("litellm")]
print("loaded without litellm")
from tau2.utils import llm_utils
try:
    llm_utils.completion(model="no-such-provider/x", messages=[{"role": "user", "content": "x"}])
except Exception as exc:
    assert "litellm" in type(exc).__module__, type(exc)
else:
    raise AssertionError("no error")
import litellm
assert litellm.__file__.endswith("__init__.py")
assert litellm.drop_params is True
assert llm_utils.litellm.drop_params is True
llm_utils.litellm.drop_params = False
assert litellm.drop_params is False
print("settings replayed")
"""
IMPORTED_BEFORE = """
import litellm
from pytest_a2a_bench.benchmarks.tau2 import upstream
upstream.load()
from tau2.utils import llm_utils
assert llm_utils.litellm is litellm
assert llm_utils.completion is litellm.completion
"""
TABLES = """
import builtins, sys
before = builtins.__import__
from pytest_a2a_bench.benchmarks.tau2 import upstream
upstream.load()
assert not {"pandas", "numpy", "deepdiff"} & sys.modules.keys()
assert builtins.__import__ is before
from tau2.utils import utils
assert "a" in str(utils.show_dict_diff({"a": 1}, {"a": 2}))
import deepdiff
assert type(utils.show_dict_diff({}, {})) is deepdiff.DeepDiff
assert deepdiff.__file__.endswith("__init__.py")
from tau2.data_model import simulation
import pandas
assert simulation.pd.DataFrame is pandas.DataFrame
print("real")
"""


def test_tables_are_imported_when_tau2_makes_one_and_are_the_real_ones() -> None:
    command = [sys.executable, "-W", "ignore", "-c", TABLES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "real\n", done.stderr


@pytest.fixture(scope="module")
def processes() -> Iterator[dict[str, subprocess.Popen[str]]]:
    """Both at once: importing LiteLLM takes seconds of which a second core can take half."""
    started = {
        script: subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for script in (DEFERRED, IMPORTED_BEFORE)
    }
    yield started
    for process in started.values():
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_loading_tau2_does_not_import_litellm_and_the_first_call_replays_tau2s_settings(
    processes: dict[str, subprocess.Popen[str]],
) -> None:
    said, trouble = processes[DEFERRED].communicate()
    assert processes[DEFERRED].returncode == 0, trouble
    assert said.split("\n")[:2] == ["loaded without litellm", "settings replayed"]


@pytest.mark.slow
def test_an_imported_litellm_is_left_alone(processes: dict[str, subprocess.Popen[str]]) -> None:
    _, trouble = processes[IMPORTED_BEFORE].communicate()
    assert processes[IMPORTED_BEFORE].returncode == 0, trouble
