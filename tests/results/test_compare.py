"""One agent against another: which is better, and what trials that could not be evaluated leave of that; and names."""

import dataclasses
import os
from typing import Any

import pytest

from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.config.values import read_endpoints
from pytest_a2a_bench.model import Reward, TrialKey, TrialResult
from pytest_a2a_bench.results.baseline import Baseline
from pytest_a2a_bench.results.compare import agent_names, compare, compare_agents, describe_drop
from pytest_a2a_bench.results.inference import wilson


def trial(agent: str, task: int, value: float | None) -> TrialResult:
    key = TrialKey("s", "d", str(task), agent=agent)
    if value is None:
        return TrialResult(key, "infrastructure_error", error="x")
    return TrialResult(key, "evaluated", reward_info=Reward(value), dialect=agent)


def pair(*outcomes: tuple[float | None, float | None]) -> list[TrialResult]:
    return [r for n, (a, b) in enumerate(outcomes) for r in (trial("a", n, a), trial("b", n, b))]


LOST, WON, SAME = (1.0, 0.0), (0.0, 1.0), (1.0, 1.0)


@pytest.mark.parametrize(
    ("outcomes", "better", "p"),
    [
        ([LOST] * 6, "a", 2 / 2**6),
        ([WON] * 6, "b", 2 / 2**6),
        ([LOST] * 5, None, 2 / 2**5),  # one-sided it would be below the level
        ([LOST] * 3 + [WON] * 3, None, 1.0),
        ([SAME] * 9, None, 1.0),
    ],
)
def test_which_is_better(outcomes: list[tuple[float, float]], better: str | None, p: float) -> None:
    (found,) = compare_agents(pair(*outcomes), ("a", "b"))
    assert found.better == better
    assert found.p == pytest.approx(p)
    # Whichever is called the reference.
    (other,) = compare_agents(pair(*outcomes), ("b", "a"))
    assert other.better == better
    assert other.p == pytest.approx(p)
    assert (better or "is not shown") in found.sentence
    assert found.to_json()["comparison"]["overall"]["before"]["trials"] == len(outcomes)


def test_the_interval_is_of_the_agent_that_is_ahead() -> None:
    for outcomes in (pair(*[LOST] * 9, SAME), pair(*[WON] * 9, SAME)):
        (found,) = compare_agents(outcomes, ("a", "b"))
        group = found.comparison.overall
        assert group is not None
        assert {side.wilson for side in (group.before, group.after)} == {wilson(10, 10), wilson(1, 10)}
        low, high = sorted(abs(end) for end in (group.low, group.high))
        assert f"is ahead by 0.900, 95 % sure of at least {low:+.3f} and of at most {high:+.3f}" in found.sentence


@pytest.mark.parametrize(
    ("before", "after", "verdict", "word"),
    [
        ([0] * 9, [1] * 9, "pass", "improved"),
        ([1] * 9, [1] * 9, "pass", ""),
        ([1] * 9, [0] * 9, "regressed", "regressed"),
        ([1] * 9, [0] * 9, "inconclusive", "signs of a drop"),
        ([1] * 9, [1] * 9, "inconclusive", "no sign of a drop"),
        ([1], [1], "inconclusive", ""),
    ],
)
def test_the_word_for_a_drop(before: list[int], after: list[int], verdict: Any, word: str) -> None:
    old, new = (Baseline.of(trial("a", n, float(r)) for n, r in enumerate(run)) for run in (before, after))
    assert describe_drop(compare(old, new), verdict) == word


def test_errors_count_against_who_is_ahead_and_tasks_in_common_are_compared_worst_first() -> None:
    (found,) = compare_agents(pair(*[LOST] * 6, (1.0, None)), ("a", "b"))
    assert (found.better, found.errors, found.hidden) == ("a", 1, False)
    (found,) = compare_agents(pair(*[LOST] * 6, (None, 0.0), (None, 1.0)), ("a", "b"))
    assert (found.better, found.errors, found.hidden) == (None, 2, True)
    assert "might turn this over" in found.sentence
    (found,) = compare_agents([trial("a", 1, 1.0), trial("b", 2, 1.0)], ("a", "b"))
    assert (found.comparison.overall, found.better) == (None, None)
    assert found.sentence == "no task was evaluated with both a and b"
    (found,) = compare_agents(pair(*[SAME] * 3), ("a", "b"))
    assert found.comparison.differences == ()
    (found,) = compare_agents(pair(SAME, *[LOST] * 10), ("a", "b"))
    names = [task.name.rpartition("/")[2] for task in found.comparison.tasks]
    assert names == ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "0"]


def test_a_task_with_more_trials_weighs_as_any_other() -> None:
    won = trial("", 1, 1.0)
    lost = [dataclasses.replace(trial("", 2, 0.0), key=TrialKey("s", "d", "2", number)) for number in range(3)]
    group = compare(Baseline.of([won, *lost]), Baseline.of([won, *lost])).overall
    assert group is not None
    assert (group.before.ok, group.before.trials, group.before.rate) == (1, 4, 0.5)


def test_a_baseline_is_of_the_agents_that_it_names() -> None:
    both = Baseline.of(pair(LOST, SAME))
    assert both.agents == agent_names(pair(SAME)) == ("a", "b")
    of_b = both.only("b")
    assert {n: r.outcomes for n, r in of_b.tasks.items()} == {"s/d/0": (False,), "s/d/1": (True,)}
    assert of_b.measured == {"s/d": {"dialect": ("b",)}}
    assert of_b.agents == ()
    assert of_b.only("c") == of_b
    assert of_b.named("c").agents == ("c",)


def test_endpoints_with_names() -> None:
    assert read_endpoints("http://x?a=b") == "http://x?a=b"
    assert read_endpoints("http://x http://y") == "http://y"
    assert read_endpoints("a=http://x?q=1\n  b=builtin:oracle") == {"a": "http://x?q=1", "b": "builtin:oracle"}
    with pytest.raises(ValueError, match="the URL contains credentials"):
        read_endpoints("a=http://u:p@x")


def test_no_agent_is_shown_the_token_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    variables: dict[str, Any] = {"A2A_AUTH_TOKEN": "whose", "A2A_AUTH_TOKEN_B": "b's own", "MINE_A": "a's own"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    settings = Settings(endpoint="http://a", agents={"a": "http://a", "b": "http://b"})

    def token(chosen: Settings, name: str) -> str | None:
        auth = ClientConfig.from_settings(chosen.of_agent(name), os.environ).auth
        return auth.token.reveal() if auth else None

    assert (token(settings, "a"), token(settings, "b")) == (None, "b's own")
    other = dataclasses.replace(settings, auth_env="MINE")
    assert (token(other, "a"), token(other, "b")) == ("a's own", None)
    assert {"A2A_AUTH_TOKEN_A", "A2A_AUTH_TOKEN_B"} <= set(settings.secret_variables)
    assert settings.of_agent(None) is settings
