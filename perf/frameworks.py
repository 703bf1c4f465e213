"""What the suite finds in public frameworks: install each, serve a minimal agent on it, judge that, write the table.

    python perf/frameworks.py DIR [--only fasta2a]

DIR keeps a virtual environment and the JSON report for each framework; what is there is not installed again. The table
goes to docs/explanations/frameworks.md, between its two marks; the words around it are written by hand.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
AGENTS = ROOT / "tests" / "agents"
PAGE = ROOT / "docs" / "explanations" / "frameworks.md"
BEGIN, END = "<!-- table: python perf/frameworks.py -->\n", "<!-- end of table -->\n"


class Framework(NamedTuple):
    """One framework.

    :param package: whose version is shown.
    :param installs: what pip installs.
    :param agent: the file that serves an agent on it, in ``tests/agents``.
    """

    package: str
    installs: tuple[str, ...]
    agent: str


FRAMEWORKS = (
    Framework("google-adk", ("google-adk[a2a]", "uvicorn"), "peer_adk.py"),
    Framework("fasta2a", ("fasta2a", "uvicorn"), "peer_fasta2a.py"),
    Framework("strands-agents", ("strands-agents[a2a]", "uvicorn"), "peer_strands.py"),
    Framework("a2a-sdk", ("a2a-sdk[http-server]<1.0", "uvicorn"), "peer_sdk03.py"),
)


def python_of(framework: Framework, directory: Path) -> Path:
    """Return the interpreter of the framework's own environment, which is made if it is not there."""
    place = directory / framework.agent.removeprefix("peer_").removesuffix(".py")
    python = place / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *framework.installs], check=True)
    return python


def version_of(python: Path, package: str) -> str:
    """Return the version of a package there; empty where it is not installed."""
    code = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"
    done = subprocess.run([python, "-c", code, package], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def judge(framework: Framework, python: Path, report: Path) -> dict[str, Any]:
    """Serve the agent and judge it with every check; an agent that does not start raises."""
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    command = [str(python), str(AGENTS / framework.agent)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            url = json.loads(process.stdout.readline())["url"]
            arguments = ["conformance", url, "--profile", "full", "--format", "json", "-o", str(report)]
            subprocess.run(
                [sys.executable, "-m", "pytest_a2a_bench.cli", *arguments], check=False, stdout=subprocess.DEVNULL
            )
        finally:
            process.stdin.close()
            process.wait(30)
    found: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    return found


def section(framework: Framework, version: str, sdk: str, report: dict[str, Any]) -> list[str]:
    """Return one framework's part of the table."""
    on = f" (on a2a-sdk {sdk})" if sdk and framework.package != "a2a-sdk" else ""
    spoken = ", ".join(report["interfaces"])
    counts = ", ".join(f"{n} {status}" for status, n in report["counts"].items())
    rows: defaultdict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for result in report["results"]:
        if result["status"] in ("failed", "warned", "error"):
            told = result["findings"][0]["found"] if result["findings"] else result["reason"]
            rows[result["level"], result["status"], plain(told)].append(result)
    lines = [f"## {framework.package} {version}{on}", "", f"{spoken}: {counts}.", ""]
    lines += ["| requirement | | what the specification wants | what was found |", "|---|---|---|---|"]
    for (level, status, told), results in rows.items():
        ids = ", ".join(dict.fromkeys(r["id"] for r in results))
        wanted = "; ".join(dict.fromkeys(plain(r["requirement"]) for r in results))
        lines.append(f"| {ids} | {level} {status} | {wanted} | {told} |")
    return [*lines, ""]


def plain(text: str) -> str:
    """Return text for a cell of a table."""
    # An answer that should have been a refusal is the same defect whatever it says.
    text = re.sub(r"status 200 with '.*", "accepted, with status 200", text, flags=re.DOTALL)
    shown = " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("`", "'")
    return shown if len(shown) <= 160 else shown[:157] + "..."


def main() -> None:
    """Judge and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--only", action="append", default=[], help="a framework's package (repeatable)")
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    lines = [f"Judged on {datetime.datetime.now(tz=datetime.UTC):%Y-%m-%d}, each with its newest release.", ""]
    for framework in FRAMEWORKS:
        if options.only and framework.package not in options.only:
            continue
        python = python_of(framework, options.directory)
        report = judge(framework, python, options.directory / f"{framework.package}.json")
        lines += section(framework, version_of(python, framework.package), version_of(python, "a2a-sdk"), report)
        print(f"{framework.package}: {report['counts']}")
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(before + BEGIN + "\n" + "\n".join(lines) + END + after, encoding="utf-8")


if __name__ == "__main__":
    main()
