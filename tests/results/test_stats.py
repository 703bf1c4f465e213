"""pass^k, the summary, and the line of progress."""

import dataclasses
import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.model import ProtocolMetrics, Reward, TrialKey, TrialResult, TrialStatus, Turn, Usage, UserFault
from pytest_a2a_bench.results.stats import (
    Progress,
    describe_blameless,
    duration,
    pass_hat_k,
    pass_hat_k_by_k,
    summarise,
)


@given(st.lists(st.booleans(), min_size=1, max_size=7), st.data())
def test_pass_hat_k_is_the_share_of_all_successful_draws(outcomes: list[bool], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(outcomes)))
    draws = list(itertools.combinations(outcomes, k))
    assert pass_hat_k(len(outcomes), sum(outcomes), k) == pytest.approx(sum(map(all, draws)) / len(draws))


def test_pass_hat_k_goes_as_far_as_every_task_does() -> None:
    assert pass_hat_k_by_k([[True, True], [True, False, True]]) == {1: pytest.approx(5 / 6), 2: pytest.approx(2 / 3)}
    assert pass_hat_k_by_k([]) == {}
    with pytest.raises(ValueError, match="between 1 and the number of trials"):
        pass_hat_k(2, 2, 3)


def trial(task: str, number: int, status: TrialStatus = "evaluated", reward: float = 1.0) -> TrialResult:
    return TrialResult(
        key=TrialKey("tau2", "airline", task, number),
        status=status,
        reward_info=Reward(reward) if status == "evaluated" else None,
        transcript=(Turn("agent", "a"), Turn("agent", "b")),
        metrics=(ProtocolMetrics("i", "e", "m", 200, 5.0, "t"),),
        turn_latencies=(0.5,),
        user_usage=Usage(1000, 1000, 1.0),
        agent_usage=Usage(10, None, 0.1),
    )


def test_errors_never_leave_the_denominator_unseen() -> None:
    [summary] = summarise(
        [
            trial("1", 0),
            dataclasses.replace(trial("1", 1, reward=0.0), user_fault=UserFault("ended_before_the_write")),
            trial("2", 0),
            trial("2", 1),
            trial("3", 0, "infrastructure_error"),
            trial("4", 0, "skipped"),
            trial("5", 0, "harness_error"),
            trial("6", 0, "evaluator_error"),
        ],
        registry.variant_of,
    )
    assert (summary.tasks, summary.trials, summary.evaluated) == (6, 8, 4)
    assert (summary.infra_errors, summary.skipped, summary.harness_errors) == (1, 1, 1)
    assert (summary.evaluator_errors, summary.user_faults) == (1, 1)
    assert (summary.mean_reward, summary.successes) == (0.75, 3)
    assert summary.pass_hat_k == {1: 0.75, 2: 0.5}
    assert (summary.latency_p50, summary.input_tokens, summary.output_tokens) == (0.5, 80, None)
    assert summary.cost.total == pytest.approx(8.8)


def test_a_run_whose_users_are_all_at_fault_has_no_rate_of_the_others() -> None:
    good, bad = trial("1", 0), dataclasses.replace(trial("2", 0), user_fault=UserFault("ended_before_the_write"))
    assert [describe_blameless(results) for results in ([good], [bad], [good, bad])] == [
        "",
        "there is no trial whose user did its part",
        "1.00 of 1 trial whose user did its part",
    ]


def test_labels_are_different_tests_and_nothing_evaluated_has_no_mean() -> None:
    first = trial("1", 0)
    other = dataclasses.replace(first, key=TrialKey("tau2", "airline", "1", 0, "quick"))
    [summary] = summarise([first, other], registry.variant_of)
    assert (summary.trials, summary.pass_hat_k) == (2, {1: 1.0})
    [summary] = summarise([trial("1", 0, "infrastructure_error")], registry.variant_of)
    assert summary.mean_reward is None
    assert summary.pass_hat_k == {}


def done(count: int, seconds: float = 10.0, **values: Any) -> tuple[dict[str, Any], ...]:
    return ({"status": "evaluated", "success": True, "duration_s": seconds, **values},) * count


def test_the_line() -> None:
    every = (*done(2, cost_usd=0.25), *done(1, success=False), *done(1, status="infrastructure_error", success=None))
    assert Progress(every, 20, 25.0, parallel=4, in_flight=3).line == (
        "a2a: 4 of 20 trials, 2 of 3 passed (67%), 1 not evaluated, 3 in flight, cost $0.50, 25s, about 40s left"
    )
    assert Progress((), 5, 3.0, in_flight=1).line == "a2a: 0 of 5 trials, 0 of 0 passed, 1 in flight, 3s"
    assert Progress(done(1), 9, 3.0, parallel=8).line.startswith("a2a: 1 of 9 trials, 1 of 1 passed (100%), up to 8 in")
    assert [duration(s) for s in (0.9, 59, 61, 3599, 3600, 7620)] == ["0s", "59s", "1m01s", "59m59s", "1h00m", "2h07m"]


@pytest.mark.parametrize(
    ("finished", "total", "seconds", "parallel", "expected"),
    [
        (1, 11, 10.0, 1, 100.0),
        (4, 44, 10.0, 4, 100.0),
        (4, 5, 10.0, 4, 10.0),  # the last one takes as long as one does
        (8, 16, 40.0, 4, 40.0),  # two waves took 20 s each, 10 of them beside the conversations
        (4, 4, 10.0, 4, None),
    ],
)
def test_time_left(finished: int, total: int, seconds: float, parallel: int, expected: float | None) -> None:
    assert Progress(done(finished), total, seconds, parallel).seconds_left == expected


def test_reused_trials_take_no_time_and_cost_nothing() -> None:
    every = (*done(10, 500.0, cost_usd=9.0, reused_from="earlier"), *done(1, 2.0, cost_usd=1.0))
    progress = Progress(every, 13, 2.0)
    assert progress.seconds_left == 4.0
    assert progress.cost == 1.0
    assert Progress(done(3, reused_from="earlier"), 5, 1.0).seconds_left is None
