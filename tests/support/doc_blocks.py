"""The code blocks of the documentation, and what is wrong with each: commands, options, values, syntax and files.

A block is looked at by what it is: commands are read by the parsers that would read them, with the words that stand for
a value replaced by one; Python, TOML, YAML and JSON are parsed, and our keys and values in them read. What cannot be
looked at so says why in a comment above it: ``<!-- not run: REASON -->``.
"""

import ast
import contextlib
import importlib.util
import io
import json
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.cli.main import make_parser
from pytest_a2a_bench.config.load import CORE
from pytest_a2a_bench.config.setting import Setting

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "example_suites").rglob("*.md")))

_FENCE = re.compile(r"( *)```(\w*)\s*$")
_WHY = re.compile(r"<!-- not run: (.+) -->")
_OUTPUT = re.compile(r"<!-- output: .+ -->")

STANDS_FOR = {
    "URL": "http://127.0.0.1:9999",
    "URL_A": "http://127.0.0.1:9998",
    "URL_B": "http://127.0.0.1:9999",
    "TASK": "12",
    "N": "4",
}
"""Words that stand for a value in our examples; so do shell variables, whatever they are called."""

SETTINGS_OF_EXAMPLES = {"shop_patience": CORE["max_steps"]}
"""Settings of an example's own benchmark, and one of ours that takes the same values."""

OF_OTHERS = frozenset(
    "cd cp echo export . mkdir cat exec set shift test for do done if then fi trap wait sleep kill "
    "adk curl docker gcloud gh git grpcurl kubectl sed openssl ssh tau2".split()
)
"""Commands of the shell, of clouds and of other programs, which no parser of ours reads."""


@dataclass(frozen=True)
class Block:
    """One code block.

    :param kind: the word after the fence; ``shell`` for an indented block, and for commands however they are called.
    :param why: why it is not looked at; empty where it is.
    :param is_output: whether another test compares it with what is printed.
    """

    page: Path
    line: int
    kind: str
    text: str
    why: str = ""
    is_output: bool = False

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page, in order."""
    found: list[Block] = []
    lines = page.read_text(encoding="utf-8").splitlines()
    number, said, in_list = 0, "", False
    while number < len(lines):
        line, start = lines[number], number
        number += 1
        if match := _FENCE.fullmatch(line):
            end = next(n for n in range(number, len(lines)) if lines[n].strip() == "```")
            inside, number = [inner[len(match[1]) :] for inner in lines[number:end]], end + 1
            kind = "shell" if match[2] in ("", "bash", "console", "sh") else match[2]
        elif line.startswith("    ") and not in_list and (start == 0 or not lines[start - 1].strip()):
            while number < len(lines) and (lines[number].startswith("    ") or not lines[number].strip()):
                number += 1
            inside, kind = [inner[4:] for inner in lines[start:number]], "shell"
        else:
            if line.strip():
                # What is indented below an entry of a list, a part to unfold or a directive belongs to that.
                in_list = re.match(r"\s*(?:[-*] |\d+\. |:::|\?\?\?)", line) is not None or (
                    in_list and line.startswith(" ")
                )
                said = line
            continue
        why, text = _WHY.search(said), "\n".join(inside).rstrip() + "\n"
        found.append(Block(page, start + 1, kind, text, why[1] if why else "", _OUTPUT.search(said) is not None))
        said = ""
    return found


# --- what is wrong with one -------------------------------------------------------------------------------------------


def problems(block: Block, config: pytest.Config) -> Iterator[str]:
    """Say what is wrong with a block.

    :param config: of a run that has our plugin: its parser reads the command lines of pytest.
    """
    match block.kind:
        case "shell":
            yield from shell_problems(block.text, config)
        case "python":
            yield from _python_problems(block.text)
        case "toml":
            yield from _toml_problems(block.text)
        case "yaml":
            yield from _yaml_problems(block.text, config)
        case "json":
            with contextlib.suppress(ValueError):
                json.loads(block.text)
                return
            yield "it is not JSON"
        case kind:
            yield f"nobody looks at blocks of kind {kind!r}"


def commands(text: str) -> Iterator[list[str]]:
    """Yield the commands of shell lines, as words, without variables before and redirections behind them."""
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;()<>")
        lexer.whitespace_split = True
        command: list[str] = []
        before = ""
        for word in (*lexer, ";"):
            if word and set(word) <= set("|&;()"):
                if command:
                    yield command
                command = []
            elif not ((word and set(word) <= set("<>")) or (before and set(before) <= set("<>"))):
                if command or not re.fullmatch(r"\w+=.*", word):
                    command.append(word)
            before = word


def shell_problems(text: str, config: pytest.Config) -> Iterator[str]:
    try:
        found = list(commands(text))
    except ValueError as error:
        yield f"the shell could not read it: {error}"
        return
    for words in found:
        command, *rest = [_meant(word) for word in words if word != "..." and not word.startswith("@")]
        if command in ("if", "then", "else", "while", "do"):
            command, *rest = rest or [""]
        if command in _LOOKED_AT:
            yield from _LOOKED_AT[command](rest, config)
        elif command == "python" and rest and rest[0].endswith(".py"):
            if not any((ROOT / place / rest[0]).exists() for place in ("", *_example_places())):
                yield f"there is no {rest[0]}"
        elif command not in OF_OTHERS and not command.startswith(("python", "'")):
            yield f"nobody looks at the command {command!r}"


def _example_places() -> Iterator[str]:
    yield from (str(path.relative_to(ROOT)) for path in (ROOT / "example_suites").iterdir() if path.is_dir())


def _meant(word: str) -> str:
    """Return a word with values for what stands for one."""
    word = re.sub(r"\$\{?\w+\}?", lambda match: _variable(match[0]), word)
    return re.sub(r"\b(?:" + "|".join(STANDS_FOR) + r")\b", lambda match: STANDS_FOR[match[0]], word)


def _variable(name: str) -> str:
    if "URL" in name:
        return "http://127.0.0.1:9999"
    # Parts of a whole: CI_NODE_INDEX of CI_NODE_TOTAL.
    return "1/2" if "SHARD" in name else "1" if "INDEX" in name else "2" if "TOTAL" in name else "x"


def pytest_problems(words: list[str], config: pytest.Config) -> Iterator[str]:
    """Say which options of a command line of pytest's there are not, and which values are refused."""
    # Its parser gives up on unknown short options of plugins that are not here.
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            options, unknown = config._parser.parse_known_and_unknown_args(list(words))
    except (SystemExit, pytest.UsageError) as error:
        yield f"pytest refuses it: {error}"
        return
    yield from (f"there is no option {word}" for word in unknown if word != "x")
    for name, setting in registry.every_setting().items():
        given = getattr(options, f"a2a_{name}", None)
        # Which part a CI system's job is, it says in its own variables.
        if given is not None and given != "auto":
            yield from _value_problems(f"--a2a-{setting.key}", setting, given)
    for assignment in getattr(options, "a2a_set", None) or ():
        key, _, value = assignment.partition("=")
        yield from _assignment_problems(f"--a2a-set {key}", key, value)


def _value_problems(where: str, setting: Setting, given: Any) -> Iterator[str]:
    try:
        setting.read("\n".join(given) if isinstance(given, list) else given)
    except ValueError as error:
        yield f"{where}: {error}"


def _assignment_problems(where: str, key: str, value: Any) -> Iterator[str]:
    setting = {**registry.every_setting(), **SETTINGS_OF_EXAMPLES}.get(key.replace("-", "_"))
    if setting is None:
        yield f"{where}: there is no setting {key}"
    else:
        yield from _value_problems(where, setting, _meant(value) if isinstance(value, str) else value)


def command_problems(words: list[str], config: pytest.Config) -> Iterator[str]:
    """Say what ``a2a-bench`` refuses of a command line."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            make_parser(next((word for word in words if not word.startswith("-")), None)).parse_args(words)
    except SystemExit as error:
        if error.code:
            yield said.getvalue().strip()


def _pip_problems(words: list[str], config: pytest.Config) -> Iterator[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for names in re.findall(r"(?:pytest-a2a-bench|^\.)\[([\w,]+)\]", "\n".join(words), re.MULTILINE):
        yield from (f"there is no extra {n!r}" for n in names.split(",") if n not in project["optional-dependencies"])


_LOOKED_AT: Mapping[str, Callable[[list[str], pytest.Config], Iterator[str]]] = {
    "pytest": pytest_problems,
    "a2a-bench": command_problems,
    "pip": _pip_problems,
}
"""What reads the words behind a command."""


def _python_problems(text: str) -> Iterator[str]:
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        yield f"Python cannot read it: {error}"
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "pytest_a2a_bench":
            # Read and not imported: some bring tau2 and its language models along.
            spec = importlib.util.find_spec(str(node.module))
            source = Path(spec.origin).read_text(encoding="utf-8") if spec is not None and spec.origin else ""
            yield from (f"{node.module} has no {a.name}" for a in node.names if not re.search(rf"\b{a.name}\b", source))


def _toml_problems(text: str) -> Iterator[str]:
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        yield f"it is not TOML: {error}"
        return
    for key, value in found.get("tool", {}).get("a2a-bench", {}).items():
        yield from _assignment_problems(key, key, value)


def _yaml_problems(text: str, config: pytest.Config) -> Iterator[str]:
    try:
        found = list(yaml.safe_load_all(text))
    except yaml.YAMLError as error:
        yield f"it is not YAML: {error}"
        return
    for script in _scripts(found):
        for words in commands(script):
            command, *rest = [_meant(word) for word in words]
            if command in _LOOKED_AT:
                yield from _LOOKED_AT[command](rest, config)


def _scripts(found: Any) -> Iterator[str]:
    """Yield what jobs run: ``run`` of GitHub's steps, ``script`` of GitLab's jobs."""
    if isinstance(found, dict):
        for key, value in found.items():
            if key in ("run", "script", "before_script") and isinstance(value, str | list):
                yield value if isinstance(value, str) else "\n".join(map(str, value))
            else:
                yield from _scripts(value)
    elif isinstance(found, list):
        for one in found:
            yield from _scripts(one)
