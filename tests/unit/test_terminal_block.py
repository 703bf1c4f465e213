"""The block of a terminal: what a screen shows of what is written."""

from __future__ import annotations

import io
import re

from hypothesis import given
from hypothesis import strategies as st

from pytest_a2a_bench.plugin.report.block import Block

WIDTH = 20


class Screen(io.StringIO):
    """A terminal of a few lines, for the sequences that are used."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = [""]
        self.row = self.column = 0

    def write(self, text: str) -> int:
        for piece in re.findall(r"\x1b\[\d*[A-Z]|[^\x1b]", text):
            self._take(piece)
        return len(text)

    def _take(self, piece: str) -> None:
        if piece == "\x1b[J":
            self.lines[self.row] = self.lines[self.row][: self.column]
            del self.lines[self.row + 1 :]
        elif piece.startswith("\x1b["):
            number = int(piece[2:-1])
            self.row -= number if piece.endswith("A") else 0
            self.column += number if piece.endswith("C") else 0
        elif piece == "\n":
            self.row, self.column = self.row + 1, 0
            if self.row == len(self.lines):
                self.lines.append("")
        elif piece == "\r":
            self.column = 0
        else:
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = line[: self.column] + piece + line[self.column + 1 :]
            self.column += 1

    @property
    def shown(self) -> list[str]:
        return [line.rstrip() for line in self.lines]


def make() -> tuple[Block, Screen, list[str]]:
    screen, written = Screen(), [""]
    return Block(screen, lambda: len(written[0].rpartition("\n")[2]), lambda: WIDTH), screen, written


def say(block: Block, written: list[str], text: str) -> None:
    # As pytest's writer does: what it has written is known before the stream has it.
    written[0] += text
    block.write(text)
    block.flush()


def test_it_is_below_what_is_written_and_changes_in_place() -> None:
    block, screen, written = make()
    say(block, written, "tests ")
    block.show(["1 of 9", "quick"])
    assert screen.shown == ["tests", "1 of 9", "quick"]
    say(block, written, "..")
    assert screen.shown == ["tests ..", "1 of 9", "quick"]
    block.show(["2 of 9"])
    assert screen.shown == ["tests ..", "2 of 9"]
    say(block, written, "F\n\nnext ")
    assert screen.shown == ["tests ..F", "", "next", "2 of 9"]
    block.show(["a line that is too long for this"])
    assert screen.shown[-1] == "a line that is too"
    block.hide()
    say(block, written, "done")
    assert screen.shown == ["tests ..F", "", "next done"]


@given(st.lists(st.tuples(st.sampled_from("wsh"), st.text("ab\n", max_size=6)), max_size=30))
def test_what_is_written_stays_whatever_is_shown_between(steps: list[tuple[str, str]]) -> None:
    block, screen, written = make()
    for step, text in steps:
        if step == "w":
            say(block, written, text)
        elif step == "s":
            block.show(text.split("\n"))
        else:
            block.hide()
    block.hide()
    assert screen.shown == written[0].split("\n")
