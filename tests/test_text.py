"""Long waits are announced, short ones are not."""

import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from pytest_a2a_bench import text


@pytest.fixture
def said() -> Iterator[list[str]]:
    lines: list[str] = []
    undo = text.announce_with(lines.append)
    yield lines
    undo()


def test_a_long_wait_is_announced_and_a_short_one_is_not(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with text.waiting_for("nothing"):
        pass
    monkeypatch.setattr(text, "PATIENCE", 0.0)
    announced = threading.Event()

    def note(line: str) -> None:
        said.append(line)
        announced.set()

    undo = text.announce_with(note)
    with text.waiting_for("the agent"):
        assert announced.wait(60)
    undo()
    assert said == ["waiting for the agent ..."]


def test_long_work_says_how_far_it_is(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 0.0, 6.0, 7.0, 12.0])
    # Not the clock of all: servers run in other threads of this process.
    monkeypatch.setattr(text, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    assert list(text.counted("abcd", "checks")) == [*"abcd"]
    # The first took 6 s, for it loaded what the others need; they take 3 s each.
    assert said == ["1 of 4 checks", "3 of 4 checks, about 3 s left"]
