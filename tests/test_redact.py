import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spellings import ENCODINGS

from pytest_a2a_bench.redact import hide_secrets
from pytest_a2a_bench.text import sanitise

SECRET = "a b/\"c'+&\\=t0ken~<x>"
printable = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=8, max_size=40)
any_text = st.text(max_size=20)
foreign = st.text("äöü\n", max_size=20)
quick = settings(deadline=None)


@pytest.mark.parametrize("secret", [SECRET, "0000%250", "%25%2525:y", "a&amp;b&#38;&amp;amp;c&#x26;d"])
def test_every_spelling_is_hidden(secret: str) -> None:
    """Also of secrets that look as if a part of them was escaped."""
    for encoding in ENCODINGS:
        assert_hidden(secret, "you sent ", ", and more", encoding)


@quick
@given(printable, foreign, foreign, st.sampled_from(sorted(ENCODINGS)))
def test_no_secret_survives_in_any_encoding(secret: str, before: str, after: str, encoding: str) -> None:
    assert_hidden(secret, before, after, encoding)


def assert_hidden(secret: str, before: str, after: str, encoding: str) -> None:
    spelt = ENCODINGS[encoding](secret)
    hidden = hide_secrets(f"{before}<{spelt}>{after}", [secret])
    if "base64" not in encoding:
        assert hidden == f"{before}<***>{after}"
        return
    # At both ends there are characters of its neighbours, and one that is shared with them.
    left = hidden.removeprefix(f"{before}<").removesuffix(f">{after}")
    assert re.fullmatch(r"[\w+/%-]{0,11}\*\*\*[\w+/=%-]{0,12}", left)


@quick
@given(printable, any_text, any_text)
def test_no_secret_survives_wherever_it_stands(secret: str, before: str, after: str) -> None:
    assert secret not in hide_secrets(before + secret + after, [secret]).replace("***", "\0")


@pytest.mark.parametrize(
    ("text", "hidden"), [("key=ab", "key=***"), ("'ab' and ab.", "'***' and ***."), ("cab able", "cab able"), ("", "")]
)
def test_short_secrets_are_hidden_where_they_stand_alone(text: str, hidden: str) -> None:
    assert hide_secrets(text, ["ab", ""]) == hidden


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("'got s3cret-to'... at", "'got ***'... at"),
        ("got s3cr", "got ***"),
        ("got s3c", "got s3c"),
        ("s3cret-to and more", "*** and more"),
        ("s3cret and more", "s3cret and more"),
    ],
)
def test_beginnings_are_hidden_where_they_tell_much_or_a_text_was_cut(text: str, hidden: str) -> None:
    assert hide_secrets(text, ["s3cret-token"]) == hidden


def test_hiding_is_quick_on_hostile_text() -> None:
    secret = "\\a" * 30

    def cpu_seconds(parts: int) -> float:
        started = time.process_time()
        for text in ("\\" * 65536, "\\a" * 30_000 + "b", "%25" * 20_000, "s3cr" * 16_000):
            hide_secrets(text[: len(text) // parts], [secret, "s3cret-token"])
        return time.process_time() - started

    # Eight times the text: eight times as long, and not sixty-four times, as backtracking would have it.
    assert cpu_seconds(1) < 24 * max(min(cpu_seconds(8) for _ in range(3)), 0.02)


WORDS = [
    "::",
    ":",
    "#",
    "##",
    "[",
    "vso[",
    "error",
    "teamcity[",
    "section_start:",
    "1:x",
    "\n",
    "\r",
    " ",
    "\t",
    "\x1b[0K",
]
WORDS += ["\u2028", "\u200b", "\u00a0", "\x1b", "\x85", "\x00", "a"]


@given(st.lists(st.sampled_from(WORDS), max_size=12).map("".join))
def test_no_command_survives(text: str) -> None:
    clean = sanitise(text)
    for line in clean.splitlines():
        assert not line.strip().startswith("::")
        assert not re.search(r"##\w*\[|section_(start|end):\d", line)
    assert not set(clean) & set("\x1b\r\x85\x00\u200b\u2028")
    assert sanitise(clean) == clean
    # Nothing but blanks was added, and nothing that people read was lost.
    letters = [c for c in re.sub(r"\x1b\[0K", "", text) if c in "#[:abcdefghijklmnopqrstuvwxyz"]
    assert [c for c in clean if c in "#[:abcdefghijklmnopqrstuvwxyz"] == letters or "\x1b" in text
