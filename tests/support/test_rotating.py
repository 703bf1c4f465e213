from __future__ import annotations

import itertools

import pytest
import rotating


def test_without_a_seed_everything_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotating, "SEED", None)
    assert rotating.rotating("abcde", 3) == [*"abcde"]


@pytest.mark.parametrize("seed", ["0", "1795348800"])
def test_so_many_seeds_or_turns_try_everything_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], seed: str
) -> None:
    monkeypatch.setattr(rotating, "SEED", seed)
    turns = [rotating.rotating("abcde", 3, turn) for turn in range(3)]
    assert sorted(itertools.chain(*turns)) == [*"abcde"]
    assert f"of 3 of 5, by A2A_BENCH_FUZZ_SEED={seed}" in capsys.readouterr().out
    found = []
    for run in range(3):
        monkeypatch.setattr(rotating, "SEED", str(int(seed) + run))
        found += rotating.rotating("abcde", 3)
    assert sorted(found) == [*"abcde"]
