"""A family of cases in one test fails if one case does, and names each that fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from one_test import in_one_test


def test_every_case_runs_and_all_that_fail_are_named(tmp_path: Path) -> None:
    seen = []

    @in_one_test(("left", "right"), [(1, 1), (1, 2), pytest.param(3, 3), pytest.param(3, 4)])
    def equal(folder: Path, left: int, right: int) -> None:
        seen.append((folder, left, right))
        assert left == right, "they differ"

    with pytest.raises(pytest.fail.Exception) as failed:
        equal(folder=tmp_path)

    assert [row[1:] for row in seen] == [(1, 1), (1, 2), (3, 3), (3, 4)]
    assert "2 of 4 cases failed" in str(failed.value)
    assert str(failed.value).count("they differ") >= 2
    for case in ("1, 2:", "3, 4:"):
        assert f"\n{case}\n" in str(failed.value)


@pytest.mark.parametrize("outcome", [pytest.skip, pytest.fail])
def test_a_case_may_not_skip_and_a_failure_of_pytests_own_counts(outcome: object) -> None:
    @in_one_test("end", [outcome], ids=["this one"])
    def ends(end: object) -> None:
        assert callable(end)
        end("early")

    with pytest.raises(pytest.fail.Exception, match="this one"):
        ends()


def test_a_family_without_cases_is_refused() -> None:
    with pytest.raises(AssertionError):
        in_one_test("case", [])
