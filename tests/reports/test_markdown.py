"""A run as Markdown and as annotations: complete, bounded, and nothing in it acts."""

from __future__ import annotations

import pytest

from pytest_a2a_bench.reports.markdown import (
    ANNOTATIONS,
    STEP_SUMMARY_BYTES,
    RunSummary,
    Trouble,
    annotate,
    annotation,
    render,
)

HOSTILE = (
    "</summary><script>alert(1)</script> ![x](http://evil) [y](javascript:z) @everyone | `~~~`\n```\n# out\n::error::x"
)


def trouble(title: str = "tau2/airline/1#0", headline: str = "reward 0", text: str = "why", **more: str) -> Trouble:
    return Trouble(more.get("level", "error"), more.get("what", "failed"), title, headline, text)  # type: ignore[arg-type]


def test_everything_is_there() -> None:
    text = render(
        RunSummary(
            "failed",
            "http://127.0.0.1:1 (Some agent)",
            gates=(("every trial", "failed", "1 of 2 trials"),),
            table=(("domain", "trials"), ("airline", "2")),
            notes=("user simulator: scripted",),
            troubles=(trouble("b", what="missed", level="warning"), trouble()),
        )
    )
    assert text.startswith(
        "# A2A benchmark: failed\n\nAgent: http://127.0.0.1:1 (Some agent)".replace("(", "\\(").replace(")", "\\)")
    )
    assert "| gate | verdict | why |\n| --- | --- | --- |\n| every trial | failed | 1 of 2 trials |" in text
    assert "| domain | trials |\n| --- | --- |\n| airline | 2 |" in text
    assert "- user simulator: scripted\n\n## 1 failed, 1 missed\n" in text
    assert text.count("<details>") == text.count("</details>") == 2
    assert text.index("<summary>failed") < text.index("<summary>missed")


def test_nothing_that_is_said_becomes_markup() -> None:
    bad = trouble(HOSTILE, HOSTILE, HOSTILE)
    text = render(RunSummary(HOSTILE, HOSTILE, (("g", HOSTILE, HOSTILE),), (("d",), (HOSTILE,)), (HOSTILE,), (bad,)))
    before, _, after = text.partition("````text\n")
    said, closed, rest = after.partition("\n````\n")
    assert said == HOSTILE.replace("\n::", "\n: :")
    assert closed
    for outside in (before, rest):
        assert "<script" not in outside
        assert "](" not in outside
        assert " @everyone" not in outside
    assert before.count("<summary>") == before.count("</summary>") == 1
    # A table row stays one row, whatever a cell holds.
    assert text.count("\n| ") == 6


@pytest.mark.parametrize("limit", [2_000, STEP_SUMMARY_BYTES])
def test_it_fits(limit: int) -> None:
    many = [trouble(f"t{i}", text="ä😀`" * 5_000) for i in range(200)]
    text = render(RunSummary("failed", troubles=tuple(many)), limit)
    assert len(text.encode()) <= limit
    assert "## 200 failed" in text
    shown = text.count("<details>")
    assert text.endswith(f"... and {200 - shown} more.\n")
    assert shown == (0 if limit == 2_000 else 100) or shown > 10


def test_at_most_ten_annotations_of_each_level_and_the_worst_first() -> None:
    missed = [trouble(f"m{i}", level="warning", what="missed") for i in range(3)]
    failed = [trouble(f"f{i}") for i in range(2)]
    errors = [trouble("e", what="error")]
    gates = [trouble("min_pass", what="failed gate")]
    lines = list(annotate([*missed, *failed, *errors, *gates]))
    assert [line.partition("::")[2].partition("::")[0] for line in lines] == [
        "error title=failed gate%3A min_pass",
        "error title=error%3A e",
        *(f"error title=failed%3A f{i}" for i in range(2)),
        *(f"warning title=missed%3A m{i}" for i in range(3)),
    ]

    lines = list(annotate([*missed * 4, *failed * 5, *errors, *gates]))
    assert len(lines) == 2 * ANNOTATIONS
    assert lines[0].startswith("::error title=failed gate")
    assert lines[ANNOTATIONS - 1].startswith("::error title=and more::3 more trials")
    assert lines[-1].startswith("::warning title=and more::3 more trials")
    assert list(annotate([])) == []


def test_an_annotation_is_one_command_whatever_it_says() -> None:
    line = annotation("error", "a:b,c%\n::stop", "50%\r\n::set-env name=X::y\x1b[31m")
    assert line == "::error title=a%3Ab%2Cc%25 %3A %3Astop::50%25 : :set-env name=X::y"
    assert "\n" not in line
