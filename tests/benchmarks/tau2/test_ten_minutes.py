"""The tutorial of a gate in ten minutes prints what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest
import ten_minutes
import told


@pytest.mark.slow
def test_the_ten_minutes_are_as_they_are_told(tmp_path: Path) -> None:
    found = ten_minutes.hold(tmp_path)
    page = told.blocks(ten_minutes.PAGE)
    assert page.keys() == found.keys()
    for name, text in found.items():
        assert ten_minutes.same_anywhere(text) == ten_minutes.same_anywhere(page[name])


def test_the_commands_of_the_ten_minutes_are_on_the_page() -> None:
    page = ten_minutes.PAGE.read_text(encoding="utf-8")
    for command, _ in ten_minutes.STEPS.values():
        assert f"    {command}\n" in page
