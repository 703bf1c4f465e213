"""Hold a trial with tau2's own LLM user, and print what that did to the process: environment, files, network.

Run in a directory with a ``.env``; ``sys.frozen`` makes python-dotenv look there, as it does above a virtual
environment inside a project.
"""

import json
import os
import sys
from types import SimpleNamespace
from typing import Any

FOUND: dict[str, list[str]] = {"written": [], "network": []}
_CHANGES = ("os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.link", "os.truncate", "shutil.move")


def watch(event: str, args: tuple[Any, ...]) -> None:
    """Take down what writes to files, and what looks for hosts."""
    if event == "open" and isinstance(args[0], str | bytes):
        mode, flags = args[1] or "", args[2] or 0
        if set("wax+") & set(mode) or (not mode and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)):
            FOUND["written"].append(str(args[0]))
    elif event in _CHANGES:
        FOUND["written"].append(f"{event} {args[0]}")
    elif event in ("socket.getaddrinfo", "socket.gethostbyname") or (
        event == "socket.connect" and isinstance(args[1], tuple)
    ):
        FOUND["network"].append(f"{event} {args[1:]}")


def main() -> None:
    from pytest_a2a_bench.benchmarks.base import TrialContext
    from pytest_a2a_bench.benchmarks.tau2.benchmark import BENCHMARK
    from pytest_a2a_bench.config.settings import Settings
    from pytest_a2a_bench.model import Part, TrialKey

    before = dict(os.environ)
    reply = SimpleNamespace(parts=(Part.of_text("How can I help you?"),), usage=None, elsewhere="")
    session: Any = SimpleNamespace(context_id="c", send=lambda parts, timeout=None: reply)
    llm = Settings(
        user="llm:gpt-4o", user_llm_args={"mock_response": "Thanks. ###STOP###"}, max_steps=5, extra_turn=False
    )
    for settings, key in (
        (Settings(max_steps=5), TrialKey("tau2", "telecom", sys.argv[1], 0)),
        (llm, TrialKey("tau2", "mock", "create_task_1", 0)),
    ):
        outcome = BENCHMARK.run_trial(TrialContext(key, settings, session, seed=1))
        assert outcome.reward is not None, outcome.error
    changed = {name for name in {*before, *os.environ} if before.get(name) != os.environ.get(name)}
    sys.stdout.write(json.dumps({**FOUND, "environment": sorted(changed)}))


if __name__ == "__main__":
    sys.frozen = True  # type: ignore[attr-defined]
    sys.addaudithook(watch)
    main()
