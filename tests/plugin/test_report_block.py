"""The block of a terminal: what a screen shows of what is written."""

from __future__ import annotations

import io
import re

from hypothesis import given
from hypothesis import strategies as st

from pytest_a2a_bench.plugin.report.terminal import Block

WIDTH = 20
WIDE = "\u6f22\U0001f600"
ACCENT = "\u0301"


class Screen(io.StringIO):
    """A terminal of a few lines, for the sequences that are used: each cell has a character and what combines with it.

    A wide character takes two cells. As on a real one, the cursor waits behind the last column for what continues.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[list[str]] = [[]]
        self.row = self.column = 0

    def write(self, text: str) -> int:
        for piece in re.findall(r"\x1b\[\d*[A-Z]|[^\x1b]", text):
            self._take(piece)
        return len(text)

    def _take(self, piece: str) -> None:
        if piece == "\x1b[J":
            del self.lines[self.row][self.column :]
            del self.lines[self.row + 1 :]
        elif piece.startswith("\x1b["):
            number = int(piece[2:-1])
            self.row -= number if piece.endswith("A") else 0
            self.column = min(WIDTH - 1, self.column + (number if piece.endswith("C") else 0))
        elif piece == "\n":
            self._begin_line()
        elif piece == "\r":
            self.column = 0
        elif piece == ACCENT:
            if self.column:
                self.lines[self.row][self.column - 1] += piece
        else:
            self._draw([piece, ""] if piece in WIDE else [piece])

    def _draw(self, cells: list[str]) -> None:
        if self.column + len(cells) > WIDTH:
            self._begin_line()
        line = self.lines[self.row]
        line += [" "] * (self.column - len(line))
        line[self.column : self.column + len(cells)] = cells
        self.column += len(cells)

    def _begin_line(self) -> None:
        self.row, self.column = self.row + 1, 0
        if self.row == len(self.lines):
            self.lines.append([])

    @property
    def shown(self) -> list[str]:
        return ["".join(line).rstrip() for line in self.lines]


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


def test_a_line_is_cut_by_the_columns_that_it_takes() -> None:
    block, screen, written = make()
    say(block, written, "tests ")
    wide, accents = "\u6f22" * WIDTH, f"e{ACCENT}" * WIDTH
    for _ in range(2):
        block.show([wide, accents, "two\tparts\nof it"])
        assert screen.shown == ["tests", "\u6f22" * 9, f"e{ACCENT}" * 19, "two parts of it"]
    say(block, written, "passed")
    assert screen.shown[0] == "tests passed"
    block.hide()
    assert screen.shown == ["tests passed"]


def test_what_is_longer_than_a_line_goes_on_where_it_was() -> None:
    block, screen, written = make()
    block.show(["1 of 9"])
    say(block, written, "x" * WIDTH)
    assert screen.shown == ["x" * WIDTH]
    say(block, written, "y")
    assert screen.shown == ["x" * WIDTH, "y", "1 of 9"]
    say(block, written, "z")
    assert screen.shown == ["x" * WIDTH, "yz", "1 of 9"]


STEPS = (
    st.tuples(st.just("w"), st.text("ab\n", max_size=8).map(lambda text: 4 * text))
    | st.tuples(st.just("s"), st.text(f"ab\n{WIDE}{ACCENT}", max_size=8).map(lambda text: 4 * text))
    | st.tuples(st.just("h"), st.just(""))
)


@given(st.lists(STEPS, max_size=30))
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
    alone = Screen()
    alone.write(written[0])
    assert screen.shown == alone.shown
