"""LiteLLM is imported when a model is called, and then is set up as tau2 set it up."""

from __future__ import annotations

import subprocess
import sys
import textwrap


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )


def test_loading_tau2_does_not_import_litellm() -> None:
    done = run(
        """
        import sys
        from pytest_a2a_bench.benchmarks.tau2 import upstream
        upstream.load()
        assert "tau2.utils.llm_utils" in sys.modules
        assert not [m for m in sys.modules if m.startswith("litellm")]
        """
    )
    assert done.returncode == 0, done.stderr


def test_the_first_call_imports_it_and_replays_tau2s_settings() -> None:
    done = run(
        """
        import sys
        from pytest_a2a_bench.benchmarks.tau2 import upstream
        upstream.load()
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
        """
    )
    assert done.returncode == 0, done.stderr


def test_an_imported_litellm_is_left_alone() -> None:
    done = run(
        """
        import litellm
        from pytest_a2a_bench.benchmarks.tau2 import upstream
        upstream.load()
        from tau2.utils import llm_utils
        assert llm_utils.litellm is litellm
        assert llm_utils.completion is litellm.completion
        """
    )
    assert done.returncode == 0, done.stderr
