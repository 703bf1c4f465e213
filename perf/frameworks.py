"""What the suite finds in public frameworks: install each, serve a minimal agent on it, judge that, write the table.

    python perf/frameworks.py DIR [--only fasta2a]... [--keep]

DIR keeps an environment of its own for each framework (what is there is not installed again), and the JSON report of
its agent. Which frameworks there are, and what reading a finding by hand came to, is in ``perf/frameworks.toml``. The
table goes to docs/explanations/frameworks.md, between its two marks, and each cause to perf/frameworks.md. ``--keep``
judges nothing and writes the table of the reports that are there.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "explanations" / "frameworks.md"
CAUSES = ROOT / "perf" / "frameworks.md"
BEGIN, END = "<!-- table: python perf/frameworks.py -->\n", "<!-- end of table -->\n"
FOUND = ("failed", "error", "warned", "inconclusive")
STARTING_SECONDS = 120
JUDGING_SECONDS = 600


@dataclass(frozen=True)
class Framework:
    """One framework, as ``frameworks.toml`` has it.

    :param name: its package, whose version is shown.
    :param registry: where it comes from: ``PyPI`` or ``npm``.
    :param installs: what pip or npm installs.
    :param agent: the file that serves an agent on it: those that tests need as well are in ``tests/agents``.
    :param title: of its part of the page, if that is not the package's name.
    :param arguments: of that file.
    :param options: of ``a2a-bench check``, where not everything is to be looked at.
    :param obeys: whether the agent does what the first word of a message says.
    :param read: requirement -> what reading its finding against the specification came to.
    :param reads: the framework whose findings were read, where this one shows the same.
    """

    name: str
    installs: tuple[str, ...]
    agent: str
    registry: str = "PyPI"
    title: str = ""
    arguments: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    obeys: bool = False
    read: dict[str, str] = field(default_factory=dict)
    reads: str = ""

    @property
    def shown(self) -> str:
        """Its title."""
        return self.title or self.name

    @property
    def key(self) -> str:
        """What its files are called."""
        return re.sub(r"\W+", "-", self.shown).strip("-")

    @property
    def room(self) -> str:
        """What its environment is called; entries that install the same share it."""
        return "env-" + re.sub(r"\W+", "-", self.installs[0]).strip("-")


def load() -> tuple[list[Framework], dict[str, str]]:
    """Read the frameworks, and the prompts of agents that obey."""
    found = tomllib.loads((ROOT / "perf" / "frameworks.toml").read_text(encoding="utf-8"))
    lists = ("installs", "arguments", "options")
    frameworks = [
        Framework(**{k: tuple(v) if k in lists else v for k, v in entry.items()}) for entry in found["framework"]
    ]
    by_name = {f.name: f for f in frameworks}
    for framework in frameworks:
        if framework.reads:
            framework.read.update(by_name[framework.reads].read)
    return frameworks, found["words"]


def run(*command: object, seconds: float = 900) -> str:
    """Run a command and return what it wrote; its last line is the error if it fails."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, timeout=seconds)
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()
        raise RuntimeError(next((line for line in lines if "rror" in line), lines[-1]))
    return done.stdout


# -- install and serve --


def install(framework: Framework, place: Path) -> list[str]:
    """Install a framework unless it is there, and return the command that serves the agent."""
    done = place / "installed"
    if framework.registry == "npm":
        if not done.exists():
            place.mkdir(parents=True, exist_ok=True)
            run("npm", "install", "--silent", "--prefix", place, *framework.installs)
        # Node looks for packages beside the file.
        agent = shutil.copy(ROOT / framework.agent, place)
        command = ["node", str(agent)]
    else:
        if not done.exists():
            run(sys.executable, "-m", "venv", place)
            run(place / "bin" / "python", "-m", "pip", "install", "-q", *framework.installs)
        command = [str(place / "bin" / "python"), str(ROOT / framework.agent)]
    done.touch()
    return [*command, *framework.arguments]


def versions(framework: Framework, place: Path) -> dict[str, str]:
    """Return the versions of the framework, and of the SDK under it."""
    if framework.registry == "npm":
        about = json.loads((place / "node_modules" / framework.name / "package.json").read_text(encoding="utf-8"))
        return {framework.name: about["version"]}
    code = "import importlib.metadata as m, json; print(json.dumps({d.name: d.version for d in m.distributions()}))"
    there = json.loads(run(place / "bin" / "python", "-c", code))
    wanted = dict.fromkeys((framework.name, "a2a-sdk", *(("fasta2a",) if "fasta2a" in there else ())))
    return {name: there[name] for name in wanted if name in there}


def judge(framework: Framework, command: list[str], report: Path, words: Path) -> dict[str, Any]:
    """Serve the agent and judge it with every check.

    :raises RuntimeError: if the agent does not start, or cannot be judged.
    """
    # What agents have in common is in tests/agents.
    environ = os.environ | {"PYTHONPATH": str(ROOT / "tests" / "agents")}
    log = report.with_suffix(".log")
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=environ
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            url = _url(process, log)
            arguments = ["check", url, "--profile", "full", "--timeout", "30", "--format", "json"]
            arguments += ["-o", str(report)]
            arguments += ["--scenarios", str(words)] if framework.obeys else []
            told = subprocess.run(
                [sys.executable, "-m", "pytest_a2a_bench.cli", *arguments, *framework.options],
                check=False,
                capture_output=True,
                text=True,
                timeout=JUDGING_SECONDS,
            )
        finally:
            process.stdin.close()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
    if not report.exists():
        raise RuntimeError(f"it could not be judged: {told.stderr.strip().splitlines()[-1]}")
    found: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    return found


def _url(process: subprocess.Popen[str], log: Path) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.startswith("{"):
        process.wait(STARTING_SECONDS)
        said = log.read_text(encoding="utf-8").strip().splitlines() or ["nothing"]
        raise RuntimeError(f"its agent did not start: {said[-1]}")
    return str(json.loads(line)["url"])


# -- the page --


def section(framework: Framework, there: dict[str, str], report: dict[str, Any]) -> list[str]:
    """Return one framework's part of the page: a line for each cause, and the causes that it has from another one."""
    first, *below = (f"{name} {version}" for name, version in there.items())
    under = f" (on {', '.join(below)})" if below else ""
    title = f"{framework.title}: {first}" if framework.title else first
    lines = [f"### {title}{under}", ""]
    listed, elsewhere = [], defaultdict(list)
    for result in counted(report)[1]:
        read = framework.read.get(result["id"], "")
        found = re.match(r"(a2a-sdk(?: 0\.3)?)'s\b", read)
        if origin := framework.reads or (found[1] if found else ""):
            elsewhere[origin].append(result["id"])
            continue
        evidence = result["findings"][0]["found"] if result["findings"] else result["reason"]
        words = re.sub(r"^Real[:,.;]? ?", "", read) or plain(evidence) + ("" if read else " (not read by hand)")
        sentence = words[0].upper() + words[1:].removesuffix(".")
        warned = " (warned)" if result["level"] == "MUST" and result["status"] == "warned" else ""
        listed.append(f"- {result['id']}{warned}: {sentence}.")
    if not listed:
        return []
    # What differs from binding to binding is read as one.
    lines += [*dict.fromkeys(listed), ""]
    for origin, ids in elsewhere.items():
        lines += [f"As {origin}: {', '.join(ids)}.", ""]
    return lines


def counted(report: dict[str, Any]) -> tuple[int, list[dict[str, Any]]]:
    """Return how many rows there would be without folding, and the causes."""
    causes = [r for r in report["results"] if r["status"] in FOUND]
    # What was not even tried because of a cause has no findings, and would have been no row of its own.
    consequences = [r for r in report["results"] if r["status"] == "explained" and r["findings"]]
    return len(causes) + len(consequences), causes


def sums(rows: int, causes: list[dict[str, Any]]) -> str:
    """Return both numbers in words."""
    return f"{rows} finding{'s' * (rows != 1)} of {len(causes)} cause{'s' * (len(causes) != 1)}"


def plain(text: str) -> str:
    """Return text for a cell of a table."""
    # An answer that should have been a refusal is the same defect whatever it says.
    text = re.sub(r"status \S+ with '.*", "the request was answered", text, flags=re.DOTALL)
    text = re.sub(r"http://127\.0\.0\.1:\d+", "URL", text)
    shown = " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("`", "'").replace("*", "\\*")
    return shown if len(shown) <= 200 else shown[:197] + "..."


def overview(results: list[tuple[Framework, dict[str, str], dict[str, Any] | str]]) -> list[str]:
    """Return the table of all frameworks, with those that could not be judged."""
    lines = ["| framework | speaks | findings | causes | failed | warned |", "|---|---|---|---|---|---|"]
    total = Counter[str]()
    for framework, there, report in results:
        version = there.get(framework.name, "")
        name = f"{framework.title} ({version})" if framework.title else f"{framework.name} {version}".strip()
        if isinstance(report, str):
            lines.append(f"| {name} | {plain(report)} | | | | |")
            continue
        rows, causes = counted(report)
        told = Counter(c["status"] for c in causes)
        lines.append(
            f"| {name} | {', '.join(report['interfaces'])} | {rows} | {len(causes)} "
            f"| {told['failed'] + told['error']} | {told['warned'] + told['inconclusive']} |"
        )
        total += Counter(rows=rows, causes=len(causes), failed=told["failed"] + told["error"], warned=told["warned"])
    lines.append(f"| all | | {total['rows']} | {total['causes']} | {total['failed']} | {total['warned']} |")
    return [*lines, ""]


def main() -> None:
    """Judge and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--only", action="append", default=[], help="a framework's title or package (repeatable)")
    parser.add_argument("--keep", action="store_true", help="judge nothing: write what the last run found")
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    frameworks, prompts = load()
    words = options.directory / "words.toml"
    words.write_text("".join(f"{k} = {json.dumps(v)}\n" for k, v in prompts.items()), encoding="utf-8")
    results: list[tuple[Framework, dict[str, str], dict[str, Any] | str]] = []
    for framework in frameworks:
        place, report = options.directory / framework.room, options.directory / f"{framework.key}.json"
        there: dict[str, str] = {}
        told: dict[str, Any] | str
        try:
            chosen = not options.only or {framework.shown, framework.name} & set(options.only)
            if options.keep or not chosen:
                there = versions(framework, place)
                told = json.loads(report.read_text(encoding="utf-8"))
            else:
                report.unlink(missing_ok=True)
                command = install(framework, place)
                there = versions(framework, place)
                told = judge(framework, command, report, words)
        # Whatever goes wrong with one of them is its row, and the others are judged all the same.
        except (RuntimeError, OSError, subprocess.TimeoutExpired, ValueError) as error:
            told = f"not judged: {error}"
        results.append((framework, there, told))
        print(f"{framework.shown}: {told if isinstance(told, str) else sums(*counted(told))}", flush=True)
    lines = [f"Judged on {datetime.datetime.now(tz=datetime.UTC):%Y-%m-%d}, each in its newest release.", ""]
    lines += overview(results)
    causes = ["# The causes of each framework", "", "Written by `python perf/frameworks.py`.", ""]
    for framework, there, told in results:
        causes += section(framework, there, told) if not isinstance(told, str) else []
    CAUSES.write_text("\n".join(causes), encoding="utf-8")
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(before + BEGIN + "\n" + "\n".join(lines) + END + after, encoding="utf-8")


if __name__ == "__main__":
    main()
