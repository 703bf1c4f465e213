"""Upstream's own tau2 in Python 3.12 and 3.13: every task of its five domains, and its own tools on what we export.

    python .ci/upstream.py WORK

The package comes from A2A_BENCH_TAU2_GIT, a directory or a URL. Where it cannot be had, or no such Python is there, one
line says so and nothing fails: whoever has no network has nothing to mend.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "agents"))

from fake_llm import FakeLLM, judge  # noqa: E402

PUBLIC = "https://github.com/sierra-research/tau2-bench"
SOURCE = "A2A_BENCH_TAU2_GIT"
CHECKOUT = "A2A_BENCH_TAU2_CHECKOUT"
VERSIONS = ("3.12", "3.13")
DOMAINS = ("airline", "retail", "telecom", "mock", "banking_knowledge")

IMPOSSIBLE = "a2a/mock::test_mock[update_task_with_user_tools-t0]"
"""Nobody can pass it: its assertion wants a notification read, and its gold database has it unread
(tests/benchmarks/tau2/test_upstream.py shows both ways)."""

ANSWERS = (
    "oracle",
    "scripted",
    "nobody",
    "nobody",
    "nobody@example.org",
    "",
    "",
    "n",
    "custom",
    *[""] * 4,
    "n",
    "n",
    "n",
)
"""What ``tau2 submit prepare`` asks: names, an address, whether anything was modified; the rest as it suggests."""


def main(work: Path) -> int:
    """Run everything that can be run here."""
    checkout = work / "tau2"
    if problem := fetch(os.environ.get(SOURCE) or PUBLIC, checkout):
        return skip(problem)
    pythons = {version: path for version in VERSIONS if (path := find_python(version))}
    if not pythons:
        return skip(f"there is no Python {' or '.join(VERSIONS)}")
    for version in VERSIONS:
        if version not in pythons:
            skip(f"there is no Python {version}")
    for number, (version, python) in enumerate(pythons.items()):
        bin_dir = install(python, work / version, checkout)
        # Every task in one Python; in others what is particular to upstream.
        if number == 0:
            every_task(bin_dir, work)
        own_tests(bin_dir, work, checkout)
        print(f"upstream's tau2 with Python {version}: all is well", flush=True)
    return 0


def skip(why: str) -> int:
    """Say in one line what is not done."""
    print(f"skipped: upstream's tau2: {' '.join(why.split())[:300]}", flush=True)
    return 0


def fetch(source: str, checkout: Path) -> str:
    """Clone upstream's repository, and return what kept us from it."""
    quiet = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    command = [
        "git",
        "clone",
        "-q",
        "--depth",
        "1",
        Path(source).resolve().as_uri() if Path(source).is_dir() else source,
    ]
    try:
        found = subprocess.run([*command, str(checkout)], env=quiet, capture_output=True, text=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{source} cannot be reached ({error}); set {SOURCE}"
    if found.returncode:
        return f"{source} cannot be reached ({found.stderr.strip()}); set {SOURCE}"
    return "" if (checkout / "src" / "tau2").is_dir() else f"{source} has no src/tau2; set {SOURCE}"


def find_python(version: str) -> str | None:
    """Return an interpreter of a version, from the path or from pyenv; a name that pyenv only stands for is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    candidates = [
        shutil.which(f"python{version}"),
        *map(str, sorted(pyenv.glob(f"{version}.*/bin/python"), reverse=True)),
    ]
    return next((found for found in candidates if found and runs(found, version)), None)


def runs(python: str, version: str) -> bool:
    """Whether an interpreter starts, and is what it is called."""
    code = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    return subprocess.run([python, "-c", code], capture_output=True, text=True).stdout.strip() == version


def install(python: str, venv: Path, checkout: Path) -> Path:
    """Make an environment as docs/guides/upstream.md says, and return its directory of programs."""
    subprocess.run([python, "-m", "venv", str(venv)], check=True)
    pip = [str(venv / "bin" / "pip"), "install", "-q", "--disable-pip-version-check"]
    # Upstream imports audioop, which Python 3.13 has no more, and does not name what stands in for it.
    more = ["audioop-lts; python_version >= '3.13'", "json-repair", "mcp", "hypothesis>=6.100"]
    # The servers of the tests speak gRPC, too.
    ours = [f"{ROOT}[xdist,agents,grpc]", *more]
    done = subprocess.run([*pip, "-e", f"{checkout}[knowledge]", *ours], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{done.stdout}{done.stderr}")
    return venv / "bin"


def every_task(bin_dir: Path, work: Path) -> None:
    """Let the oracle play every task, with a judge over HTTP, and upstream's tools agree about it."""
    results = work / "results"
    with FakeLLM(judge()) as model:
        reach = {"OPENAI_API_KEY": "scripted", "OPENAI_API_BASE": model.api_base}
        oracle = ["--a2a-endpoint", "builtin:oracle", "--a2a-suite", "tau2", "--a2a-judge-llm", "openai/judge"]
        speed = ["-n", "2", "--a2a-concurrency", "2", "--deselect", IMPOSSIBLE]
        project = work / "project"
        project.mkdir()
        command = [bin_dir / "pytest", "-q", "-p", "no:cacheprovider", *oracle, *speed, f"--a2a-results={results}"]
        run(command, project, reach)
        assert model.requests, "no task was judged"
        files = [export(bin_dir, results, domain, work) for domain in DOMAINS]
        # Two at a time: upstream evaluates one conversation after the other.
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda part: evaluate(bin_dir, part, work, reach), (files[:1], files[1:4])))
    for file in files[:4]:
        agree(file, work / "evaluated" / f"updated_{file.name}")
    submit(bin_dir, [file for file in files if "mock" not in file.name], work)


def export(bin_dir: Path, results: Path, domain: str, work: Path) -> Path:
    """Write one domain's results in tau2's format. mock lacks the task that was left out."""
    target = work / f"{domain}.json"
    run([bin_dir / "a2a-bench", "export", "tau2", results, "--domain", domain, "-o", target], work)
    return target


def evaluate(bin_dir: Path, files: list[Path], work: Path, reach: Mapping[str, str]) -> None:
    """Let upstream evaluate exported conversations again. It cannot do so for banking_knowledge without a key."""
    command = [bin_dir / "tau2", "evaluate-trajs", "--fresh-tasks", *files, "-o", work / "evaluated"]
    run(command, work, reach, quiet=True)


def agree(ours: Path, theirs: Path) -> None:
    """Compare all that upstream says about a reward, but for the judge's words."""

    def told(path: Path) -> dict[tuple[str, int], dict[str, Any]]:
        found = json.loads(path.read_text(encoding="utf-8"))["simulations"]
        left_out = ("info", "nl_assertions")
        return {
            (s["task_id"], s["trial"]): {k: v for k, v in s["reward_info"].items() if k not in left_out} for s in found
        }

    assert told(ours) == told(theirs), f"tau2 evaluate-trajs does not agree about {ours.name}"
    print(f"tau2 evaluate-trajs --fresh-tasks agrees about {len(told(ours))} trials of {ours.stem}", flush=True)


def submit(bin_dir: Path, files: list[Path], work: Path) -> None:
    """Let upstream prepare a submission and validate it.

    Without mock: two of its tasks hold messages without times, which upstream fills in anew whenever it reads them, so
    that they never equal themselves.
    """
    prepare = [bin_dir / "tau2", "submit", "prepare", *files, "-o", work / "submission"]
    told = run(prepare, work, quiet=True, say="\n".join(ANSWERS) + "\n" * 4)
    [submission] = (work / "submission").iterdir()
    validated = run([bin_dir / "tau2", "submit", "validate", submission], work, quiet=True)
    assert "Submission validation successful" in validated, told + validated
    assert "Pass^" not in validated.partition("Validating submission metrics")[2], validated
    print(f"tau2 submit prepare and validate accept {len(files)} domains", flush=True)


def own_tests(bin_dir: Path, work: Path, checkout: Path) -> None:
    """Run the tests that need upstream's package."""
    tests = [ROOT / "tests" / "benchmarks" / "tau2" / "test_upstream.py", "--run-slow", "-p", "no:cacheprovider", "-q"]
    run([bin_dir / "python", "-m", "pytest", *tests], ROOT, {CHECKOUT: str(checkout)})


def run(
    command: list[Any],
    where: Path,
    more: Mapping[str, str] | None = None,
    *,
    quiet: bool = False,
    say: str | None = None,
) -> str:
    """Run a program and return what it printed, if it was to be quiet.

    :raises SystemExit: if it fails, with what it printed.
    """
    out = subprocess.PIPE if quiet else None
    done = subprocess.run(
        list(map(str, command)),
        cwd=where,
        env={**os.environ, "COLUMNS": "160", **(more or {})},
        input=say,
        stdin=subprocess.DEVNULL if say is None else None,
        stdout=out,
        stderr=subprocess.STDOUT if quiet else None,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed with {done.returncode}\n{done.stdout or ''}")
    return done.stdout or ""


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
