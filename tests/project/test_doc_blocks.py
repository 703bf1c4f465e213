"""Every code block of the documentation is right, or says why nobody can know."""

import ast
from collections.abc import Iterator
from pathlib import Path

import doc_blocks
import pytest
from doc_blocks import ROOT, Block, blocks, problems
from one_test import in_one_test

from pytest_a2a_bench import extensions

EVERY = {page: blocks(page) for page in doc_blocks.PAGES}


@pytest.fixture(autouse=True)
def own_extensions() -> Iterator[None]:
    """What ``example_suites/extensions`` adds, which its guide's commands name."""
    tree = ast.parse((ROOT / "example_suites" / "extensions" / "conftest.py").read_text(encoding="utf-8"))
    for hook in tree.body:
        if isinstance(hook, ast.FunctionDef) and isinstance(returned := hook.body[-1], ast.Return) and returned.value:
            offered = ast.literal_eval(returned.value)
            extensions.offer(hook.name.removeprefix("pytest_a2a_bench_"), offered, "the example")
    yield
    extensions.withdraw()


def test_blocks_are_right(pytestconfig: pytest.Config) -> None:
    wrong = {
        f"{page}: {block.name}": found
        for page, found_blocks in EVERY.items()
        for block in found_blocks
        if not (block.why or block.is_output) and (found := list(problems(block, pytestconfig)))
    }
    assert wrong == {}


@in_one_test(
    ("kind", "text", "problem"),
    [
        ("shell", "pytest --a2a-endpoint URL --a2a-trails 4", "there is no option --a2a-trails"),
        ("shell", "pytest --a2a-endpoint URL --a2a-dialect sierrra", "--a2a-dialect: 'sierrra' is not one of"),
        ("shell", "A=b a2a-bench reprot x > y", "invalid choice: 'reprot'"),
        ("shell", "a2a-bench gate a2a-results --write-baseline b.json --farce", "unrecognized arguments: --farce"),
        ("shell", 'pip install "pytest-a2a-bench[tau]"', "there is no extra 'tau'"),
        ("shell", "python nowhere.py", "there is no nowhere.py"),
        ("shell", "domain   airline", "nobody looks at the command 'domain'"),
        ("python", "from pytest_a2a_bench import Nothing", "pytest_a2a_bench has no Nothing"),
        ("python", "def f(:", "Python cannot read it"),
        ("toml", "[tool.a2a-bench]\ntrails = 1", "there is no setting trails"),
        ("toml", "[tool.a2a-bench]\ntrials = '0'", "trials: '0' is not a whole number"),
        ("yaml", "job:\n  script:\n    - pytest --a2a-nothing", "there is no option --a2a-nothing"),
        ("json", "{...}", "it is not JSON"),
        ("text", "anything", "nobody looks at blocks of kind 'text'"),
    ],
)  # fmt: skip
def test_problems_are_found(kind: str, text: str, problem: str, pytestconfig: pytest.Config) -> None:
    (found,) = problems(Block(ROOT / "README.md", 1, kind, text), pytestconfig)
    assert problem in found


def test_blocks_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n\n    pytest\n\n    -x\n\n- b\n\n    c\n\nd\n<!-- not run: why -->\n```json\n{\n```\n")
    assert [(b.line, b.kind, b.text, b.why) for b in blocks(page)] == [
        (3, "shell", "pytest\n\n-x\n", ""),
        (13, "json", "{\n", "why"),
    ]
