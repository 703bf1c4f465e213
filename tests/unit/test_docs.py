"""The documentation names what the code has."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import pytest_a2a_bench
from pytest_a2a_bench.plugin.run.options import every_option

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def test_every_option_is_in_the_reference() -> None:
    text = (DOCS / "reference" / "options.md").read_text(encoding="utf-8")
    rows = [r for r in text.splitlines() if r.startswith("| `--a2a-")]
    options = every_option()
    assert len(rows) == len(options)
    for option, row in zip(options, rows, strict=True):
        assert row.startswith((f"| `{option.cli} ", f"| `{option.cli}`"))
        assert f"| `{option.env}` | `{option.ini}` | {option.help} |" in row


def test_every_property_is_in_the_reference() -> None:
    from pytest_a2a_bench.model import Reward, TrialKey, TrialResult, Usage, UserFault
    from pytest_a2a_bench.plugin.trials.outcome import properties

    provenance: dict[str, object] = {
        "user": "llm",
        "user_llm": "m",
        "judge": "j",
        "evaluation_type": "all",
        "benchmark": "b",
    }
    provenance |= {
        "scoring": "compat",
        "extractor": "e",
        "aided": False,
        "drift": "low",
        "rot": 5,
        "variant": "drift low, rot 5",
    }
    provenance["measured"] = {"queries": 3, "query_errors": 1, "rows_read": 9}
    result = TrialResult(
        TrialKey("crmarena", "mini", "1", 0, "label"),
        "evaluated",
        "run",
        Reward(1.0),
        termination_reason="user_stop",
        error_type="E",
        agent_usage=Usage(1, 1, 1.0),
        seed=1,
        dialect="d",
        provenance={**provenance, "tagged": False, "replayed": True, "stopped": "the token was refused"},
        reused_from="r",
        user_fault=UserFault("out-of-scope"),
        user_retries=(UserFault("stopped-early"),),
        category="handle_time",
    )
    text = (DOCS / "reference" / "results.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"`a2a\.(\w+)`", text))
    latencies = {"latency_p50_ms", "latency_p95_ms"}  # there is no request in this result
    assert set(properties(result, "p")) | latencies == documented


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda p: p.stem)
def test_python_examples_compile(page: Path) -> None:
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        ast.parse(block)


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))], ids=lambda p: p.stem)
def test_options_in_the_text_exist(page: Path) -> None:
    known = {"--a2a-shop-patience"}  # of the example of a benchmark of one's own
    known |= {o.cli for o in every_option()} | {f"--a2a-no-{o.cli_stem}" for o in every_option() if o.flag}
    named = set(re.findall(r"--a2a-[a-z-]*[a-z]", page.read_text(encoding="utf-8")))
    assert named <= known


def test_the_public_names_exist_and_are_all_listed() -> None:
    assert set(pytest_a2a_bench.__all__) == {*pytest_a2a_bench._HOMES, "__version__"}
    for name in pytest_a2a_bench.__all__:
        assert getattr(pytest_a2a_bench, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        _ = pytest_a2a_bench.nope
