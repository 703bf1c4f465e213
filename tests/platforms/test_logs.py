"""What is kept of what an agent writes."""

from __future__ import annotations

import itertools

from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_a2a_bench.platforms.logs import BoundedLog
from pytest_a2a_bench.secret import KNOWN, KnownSecret


@settings(max_examples=examples(50), deadline=None)
@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=4))
def test_a_short_log_is_kept_as_it_is_however_it_comes(data: bytes, cuts: list[int]) -> None:
    log, lines = BoundedLog(), list[str]()
    echoed = BoundedLog(lines.append)
    places = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    for begin, end in itertools.pairwise(places):
        log.feed(data[begin:end])
        echoed.feed(data[begin:end])
    echoed.feed(b"")
    log.feed(b"")
    assert log.text() == data.decode("utf-8", "replace")
    assert "\n".join(lines) == data.decode("utf-8", "replace").removesuffix("\n")


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=80))
def test_a_long_one_keeps_its_beginning_and_its_end(lengths: list[int]) -> None:
    log = BoundedLog(head=50, tail=100)
    lines = [f"{number:03}{'x' * length}\n" for number, length in enumerate(lengths)]
    for line in lines:
        log.feed(line.encode())
    whole, kept = "".join(lines), log.text()
    if kept == whole:
        return
    first, told, last = kept.partition("[... ")
    gone, _, last = last.partition(" characters left out ...]\n")
    assert told
    assert whole.startswith(first)
    assert whole.endswith(last)
    assert len(first) + int(gone) + len(last) == len(whole)
    assert len(first) <= 50
    assert len(last) <= 100


def test_a_line_without_end_is_shown_and_bounded() -> None:
    log = BoundedLog(head=0, tail=40_000)
    for _ in range(100):
        log.feed(b"y" * 10_000)
    assert len(log.text()) < 80_000
    assert "characters left out" in log.text()


def test_a_secret_that_comes_in_pieces_is_hidden() -> None:
    forget = KNOWN.remember([KnownSecret("KEY", "sk-canary-5d41402abc4b2a76")])
    lines: list[str] = []
    log = BoundedLog(lines.append)
    for piece in (b"the key is sk-canary-5d4", b"1402abc4b2a76 and", b" no other\nsk-canary-5d41402abc4b2a76"):
        log.feed(piece)
    text = log.text()
    forget()
    assert text == "the key is *** and no other\n***"
    assert lines == ["the key is *** and no other"]
