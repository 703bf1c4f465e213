"""The tutorial of a gate in ten minutes prints what the page says."""

from __future__ import annotations

from pathlib import Path

import documented_output
import failing_merge
import pytest
import ten_minutes


@pytest.mark.slow
def test_the_ten_minutes_are_as_they_are_reported(tmp_path: Path) -> None:
    found = ten_minutes.hold(tmp_path)
    page = documented_output.blocks(ten_minutes.PAGE)
    assert page.keys() == found.keys()
    for name, text in found.items():
        assert ten_minutes.same_anywhere(text) == ten_minutes.same_anywhere(page[name])


def test_the_commands_of_the_ten_minutes_are_on_the_page() -> None:
    page = ten_minutes.PAGE.read_text(encoding="utf-8")
    for command, _ in ten_minutes.STEPS.values():
        assert f"    {command}\n" in page


# The tutorial of a failing merge, from red to green, prints what the page says.


@pytest.mark.slow
def test_the_story_is_as_it_is_reported(tmp_path: Path) -> None:
    found = failing_merge.hold(tmp_path)
    page = documented_output.blocks(failing_merge.PAGE)
    assert page.keys() == found.keys()
    for name, text in found.items():
        assert documented_output.without_times(text) == documented_output.without_times(page[name])


def test_the_commands_of_the_page_are_those_of_the_story() -> None:
    page = failing_merge.PAGE.read_text(encoding="utf-8")
    for step in failing_merge.STEPS:
        assert f"    {step.command}\n" in page
    assert documented_output.without_times("==== 2 passed in 10.37s (0:01:20) ==") == " 2 passed in TIME "
    assert (
        documented_output.without_times("100 conversations, 15 s; 0.05 in 40%")
        == "100 conversations, TIME; 0.05 in 40%"
    )
