"""Files of conversations that are being held: what is written is what is read, whoever looks and whenever."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from pytest_a2a_bench.model import AgentSaid, Briefing, Event, ToolCall, ToolReturned, ToolSpec, TrialKey, UserSaid
from pytest_a2a_bench.results.live import Growing, Watch, clear
from pytest_a2a_bench.secret import KNOWN, KnownSecret

KEY = TrialKey.parse("made/even/1#0")
BRIEFING = Briefing("Be kind.\n", (ToolSpec("look", "Looks."),))
EVENTS: tuple[Event, ...] = (
    UserSaid("hello\nthere \u2028"),
    AgentSaid(calls=(ToolCall("look", {"at": [1, None]}, "c1"),)),
    ToolReturned("c1", "look", '{"a": 1}', error=True),
    AgentSaid("It is there."),
)


def files(directory: Path) -> list[Path]:
    return sorted((directory / "live").glob("*"))


def test_a_conversation_grows_and_goes(tmp_path: Path) -> None:
    growing, watch = Growing(tmp_path, KEY, "run"), Watch(tmp_path)
    [held] = watch.look()
    assert (held.key, held.run_id, held.turns) == (str(KEY), "run", [])
    [path] = files(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600

    for event in EVENTS:
        growing.hear(BRIEFING, [event])
    [same] = watch.look()
    assert same is held
    assert held.briefing == {"policy": "Be kind.\n", "tools": [["look", "Looks."]]}
    assert [turn.to_json() for _, turn in held.turns] == [
        {"role": "user", "text": "hello\nthere \u2028"},
        {"role": "agent", "calls": [{"name": "look", "arguments": {"at": [1, None]}, "id": "c1"}]},
        {
            "role": "tool", "text": '{"a": 1}', "call_id": "c1", "tool": "look", "error": True, "requestor": "agent"
        },
        {"role": "agent", "text": "It is there."},
    ]  # fmt: skip
    # Once each, however often somebody looks.
    assert len(watch.look()[0].turns) == 4

    growing.end()
    growing.hear(BRIEFING, EVENTS)
    growing.end()
    assert (watch.look(), files(tmp_path)) == ([], [])


def test_a_trial_that_is_held_again_is_another_conversation(tmp_path: Path) -> None:
    watch = Watch(tmp_path)
    first = Growing(tmp_path, KEY, "run")
    first.hear(BRIEFING, EVENTS)
    [before] = watch.look()
    first.end()
    Growing(tmp_path, KEY, "run").hear(BRIEFING, EVENTS[:1], party="other")
    [held] = watch.look()
    assert held.id != before.id
    assert len(held.turns) == 1


def test_half_a_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    growing, watch = Growing(tmp_path, KEY, "run"), Watch(tmp_path)
    [path] = files(tmp_path)
    line = json.dumps({"at": 1, "turn": {"role": "user", "text": "ü"}}, ensure_ascii=False).encode() + b"\n"
    for at, _ in enumerate(line):
        with path.open("ab") as stream:
            stream.write(line[at : at + 1])
        assert len(watch.look()[0].turns) == (at + 1 == len(line))
    growing.end()


@pytest.mark.parametrize(
    "text", [b"{\n", b"[]\n", b"\xff\xfe\n", b'{"key": 1, "began": "x"}\n', b"", b'{"turn": {}}\n']
)
def test_what_is_damaged_is_not_there(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "live").mkdir()
    (tmp_path / "live" / "made.0123.jsonl").write_bytes(text)
    (tmp_path / "live" / "x.jsonl").write_bytes(text)
    Growing(tmp_path, KEY, "run")
    assert [held.key for held in Watch(tmp_path).look()] == [str(KEY)]
    clear(tmp_path)
    assert Watch(tmp_path).look() == []


def test_secrets_are_not_in_them(tmp_path: Path) -> None:
    forget = KNOWN.remember([KnownSecret("A2A_AUTH_TOKEN", "s3cret-token-of-the-agent")])
    Growing(tmp_path, KEY, "run").hear(BRIEFING, [AgentSaid("I know s3cret-token-of-the-agent")])
    forget()
    assert "s3cret" not in files(tmp_path)[0].read_text()


def test_a_directory_that_cannot_be_written_ends_no_conversation(tmp_path: Path) -> None:
    (tmp_path / "live").touch()
    growing = Growing(tmp_path, KEY, "run")
    growing.hear(BRIEFING, EVENTS)
    growing.end()
