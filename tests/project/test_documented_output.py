"""The tutorials print what their pages say: a gate in ten minutes, and a failing merge from red to green."""

from pathlib import Path

import pytest
from documented_output import STORIES, blocks, hold, read, without_names, without_times


@pytest.mark.slow
@pytest.mark.parametrize("story", STORIES)
def test_a_page_shows_what_its_commands_print(story: str, tmp_path: Path) -> None:
    found, page = hold(story, tmp_path), blocks(story)
    same = without_names if story == "ten-minutes" else without_times
    assert {name: same(text) for name, text in found.items()} == {name: same(text) for name, text in page.items()}


@pytest.mark.parametrize("story", STORIES)
def test_the_commands_are_on_the_page(story: str) -> None:
    assert [step.command for step in STORIES[story] if f"    {step.command}\n" not in read(story)] == []


def test_only_times_are_left_out() -> None:
    assert without_times("==== 2 passed in 10.37s (0:01:20) ==") == " 2 passed in TIME "
    assert without_times("100 conversations, 15 s; 0.05 in 40%") == "100 conversations, TIME; 0.05 in 40%"
