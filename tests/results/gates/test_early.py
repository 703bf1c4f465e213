"""Verdicts that may be looked at after every trial: their error rate, their order, and what they are made of."""

from collections.abc import Iterable
from fractions import Fraction
from itertools import combinations
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_a2a_bench.model import TrialKey
from pytest_a2a_bench.results.baseline import Baseline, TaskRecord
from pytest_a2a_bench.results.gates.early import (
    Bets,
    DropBets,
    EarlyVerdict,
    Finished,
    Floor,
    draw_order,
    early_share,
    floor_bounds,
    stake_of,
)
from pytest_a2a_bench.results.gates.terms import Thresholds


def keys(number: int, domain: str = "front", trials: int = 1) -> list[TrialKey]:
    return [TrialKey("desk", domain, f"t{i}", trial) for i in range(number) for trial in range(trials)]


def finish(verdict: EarlyVerdict, keys: Iterable[TrialKey], *, success: bool) -> None:
    """Let trials end alike."""
    for key in keys:
        verdict.take(Finished(key, "evaluated", success))


def message(floor: Floor, outcomes: Iterable[bool]) -> bool | None:
    for success in outcomes:
        floor.take(success=success)
    return floor.reached


@pytest.mark.parametrize("level", [0.05, 0.3])
def test_a_floor_is_wrong_in_at_most_its_share_of_all_orders(level: float) -> None:
    """Every order of every outcome, by counting: the second implementation knows no law, and no inequality."""
    trials, early = 9, 0
    for ok in range(trials + 1):
        orders = [[i in chosen for i in range(trials)] for chosen in combinations(range(trials), ok)]
        for need in range(trials + 2):
            answers = [message(Floor(trials, need, level), order) for order in orders]
            assert answers.count(ok < need) <= level * len(orders), "wrong"
            assert None not in answers
            early += sum(message(Floor(trials, need, level), order[:4]) is not None for order in orders)
    assert early, "some are told after less than half"


def test_a_floor_uses_up_its_error_rate() -> None:
    """Counted once more, along all paths: nothing that was promised is left to be wrong with."""
    trials, most = 60, 35
    alive, wrong = {0: Fraction(1)}, Fraction(0)
    for seen, enough in enumerate(floor_bounds(trials, most, 0.05)):
        step: dict[int, Fraction] = {}
        for ok, likely in alive.items():
            for more, good in ((1, most - ok), (0, trials - seen - most + ok)):
                step[ok + more] = step.get(ok + more, Fraction(0)) + likely * Fraction(good, trials - seen)
        wrong += sum(likely for ok, likely in step.items() if ok >= enough)
        alive = {ok: likely for ok, likely in step.items() if ok < enough}
    assert 0.048 < wrong <= 0.05


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0]), max_size=30), st.sampled_from([0.0, 0.05, 0.2]))
def test_evidence_is_what_a_gambler_has(differences: list[float], claimed: float) -> None:
    capital, bets = Fraction(1), Bets(claimed)
    for difference in differences:
        # Half of what may be lost at most, at fair odds if the mean is as claimed.
        capital += capital * Fraction(1, 2) * (Fraction(difference) - Fraction(claimed)) / (1 + Fraction(claimed))
        bets.take(difference)
    assert capital > 0
    assert bets.evidence == pytest.approx(log(capital), abs=1e-9)


def test_a_floor_is_what_the_full_run_would_measure() -> None:
    assert message(Floor(10, 6), [True] * 6) is True, "nothing can change that"
    assert message(Floor(10, 6), [False] * 5) is False
    assert message(Floor(200, 120), []) is None
    assert message(Floor(200, 120), [True, True, True, False, False] * 8) is None
    assert message(Floor(200, 120), [True] * 9 + [False] + [True] * 20) is True
    assert message(Floor(200, 120), [False, False, True] * 13) is False
    assert message(Floor(200, 120), [False] * 30 + [True] * 170) is False, "what was decided stays"
    assert message(Floor(200, 0), []) is True
    assert message(Floor(200, 201), []) is False


def test_a_drop_is_decided_either_way() -> None:
    def after(differences: list[float]) -> bool | None:
        bets = DropBets(0.05, 0.025, 200)
        for difference in differences:
            bets.take(difference)
        return bets.larger

    assert after([1.0, 0.0] * 20) is True
    assert after([-0.2] * 60) is False
    assert after([1.0, -1.0] * 30) is None
    assert after([1.0, 0.0] * 20 + [-1.0] * 200) is True, "what was decided stays"
    bets = DropBets(1.0, 0.05, 4)
    for drop in (1.0, -1.0, 0.5, 0.0):
        bets.take(drop)
    assert bets.larger is False


def test_an_order_is_drawn_by_its_seed() -> None:
    every = [*keys(30), *keys(10, "back")]
    order = draw_order(every, "a")
    assert order == draw_order(reversed(every), "a") != draw_order(every, "b")
    assert sorted(order) == sorted(every)


def test_finished_trials_count_in_the_drawn_order() -> None:
    order = keys(40)
    verdict = EarlyVerdict(order, Thresholds(min_pass={"": 0.5}), None, lambda key: ())
    finish(verdict, order[1:], success=True)
    assert not verdict.decisions, "the first may still take long because it fails"
    verdict.take(Finished(order[0], "evaluated", False))
    decision = verdict.decisions["min_pass"]
    assert decision.verdict == "pass"
    assert decision.after < 20
    verdict = EarlyVerdict(order[:4], Thresholds(min_pass={"": 0.5}), None, lambda key: ())
    for key in order[:2]:
        assert not verdict.decisions, "two of four are needed"
        finish(verdict, [key], success=True)
    assert verdict.decisions["min_pass"].verdict == "pass"
    baseline = Baseline({"desk/front/else": TaskRecord((True,))})
    verdict = EarlyVerdict(order, Thresholds(min_pass={"": 0.5}), baseline, lambda key: ())
    finish(verdict, order, success=True)
    assert set(verdict.decisions) == {"min_pass"}
    assert verdict.level == 0.05


def test_a_skipped_trial_leaves_a_floor_and_an_error_a_comparison_undecided() -> None:
    order = keys(40)
    baseline = Baseline({f"desk/front/t{i}": TaskRecord((True,)) for i in range(40)})
    for status, decided in (("skipped", set()), ("infrastructure_error", {"min_pass"})):
        verdict = EarlyVerdict(order, Thresholds(min_pass={"": 0.5}), baseline, lambda key: ())
        verdict.take(Finished(order[0], status, False))
        finish(verdict, order[1:], success=False)
        assert set(verdict.decisions) == decided


def test_a_baselines_trials_are_in_one_pair_each() -> None:
    order = keys(20, trials=4)
    # Two trials of the baseline against four: pairs of one and two.
    baseline = Baseline({f"desk/front/t{i}": TaskRecord((True, True)) for i in range(20)})
    verdict = EarlyVerdict(draw_order(order, "x"), Thresholds(), baseline, lambda key: ())
    finish(verdict, draw_order(order, "x"), success=False)
    found = verdict.decisions["baseline"]
    assert found.verdict == "regressed"
    # Nine pairs decide it alone; a pair needs two of a task's four trials.
    assert 18 <= found.after <= 60
    assert found.planned == 80


def test_pass_hat_k_is_decided_when_nothing_can_change_it() -> None:
    order = keys(2, trials=2)
    verdict = EarlyVerdict(order, Thresholds(min_pass_k={2: 0.6}), None, lambda key: ())
    verdict.take(Finished(order[0], "evaluated", True))
    assert not verdict.decisions
    verdict.take(Finished(order[1], "evaluated", False))
    assert verdict.decisions["min_pass_k[2]"].verdict == "failed", "one of two tasks at most"
    verdict = EarlyVerdict(order, Thresholds(min_pass_k={2: 0.5}), None, lambda key: ())
    by_task = sorted(order, key=lambda key: key.task_id)
    for number, key in enumerate(by_task[:2]):
        assert bool(verdict.decisions) is False, number
        verdict.take(Finished(key, "evaluated", True))
    assert verdict.decisions["min_pass_k[2]"].verdict == "pass", "exactly one of two tasks is enough"


def test_few_pairs_keep_the_error_rate_for_the_end_and_are_bet_on_with_more() -> None:
    shares = [early_share(pairs) for pairs in (1, 50, 80, 200, 1000)]
    assert shares == sorted(shares)
    assert shares[2] == 0.5
    assert shares[0] < 0.001
    assert shares[-1] == 0.9
    stakes = [stake_of(pairs) for pairs in (0, 1, 50, 200, 1600)]
    assert stakes == pytest.approx([0.8, 0.8, 0.794, 0.5, 0.25], abs=1e-3)
    after = []
    for pairs in (50, 400):
        bets = DropBets(0.05, 0.014, pairs)
        for number in range(1, 51):
            bets.take(float(number % 2))
            if bets.larger:
                after.append(number)
                break
    assert after[0] < after[1]


def test_a_trial_runs_as_long_as_one_of_its_gates_is_not_decided() -> None:
    order = draw_order([*keys(40), *keys(40, "back")], "x")
    thresholds = Thresholds(min_pass={"front": 0.5, "back": 0.5})
    verdict = EarlyVerdict(order, thresholds, None, lambda key: (key.domain,))
    taken: dict[str, int] = {"front": 0, "back": 0}
    for key in order[:60]:
        taken[key.domain] += 1
        # At the very floor, which is told by nearly all trials only.
        verdict.take(Finished(key, "evaluated", key.domain == "front" or taken["back"] % 2 == 0))
    assert set(verdict.decisions) == {"min_pass[front]"}
    assert verdict.needless == [key for key in order[60:] if key.domain == "front"]
    assert verdict.unfinished == order[60:]
    decided, is_open = verdict.standing(verdict.needless)
    assert (set(decided), is_open) == ({"min_pass[front]"}, False)
    decided, is_open = verdict.standing(order[60:])
    assert (set(decided), is_open) == ({"min_pass[front]"}, True), "the other floor is not known"
    assert verdict.standing([]) == ({}, False), "what ran in full is judged as measured"


def test_tasks_next_to_a_coins_toss_and_with_most_trials_are_named_first() -> None:
    order = [TrialKey("desk", "d", task, trial) for trial in range(4) for task in ("a", "b", "c")]
    verdict = EarlyVerdict(order, Thresholds(min_pass={"": 0.5}), None, lambda key: ())
    for key in order[:11]:
        verdict.take(Finished(key, "evaluated", key.trial < {"a": 1, "b": 2, "c": 0}[key.task_id]))
    assert list(verdict.spent())[1:3] == [
        "uncertain (both outcomes): desk/d/b 2 of 4, desk/d/a 1 of 4",
        "weak (no success): desk/d/c 0 of 3",
    ]


def test_it_says_what_trials_were_spent_on_and_what_they_told() -> None:
    order = [TrialKey("desk", "d", task, trial) for trial in range(2) for task in ("a", "b", "c")]
    verdict = EarlyVerdict(order, Thresholds(min_pass={"": 0.5}), None, lambda key: ())
    assert list(verdict.spent()) == []
    for key, success in zip(order[:5], (True, False, True, False, False), strict=True):
        verdict.take(Finished(key, "evaluated", success))
    assert list(verdict.spent()) == [
        "spent: 5 of 6 trials, 1 to 2 on each of 3 tasks",
        "uncertain (both outcomes): desk/d/a 1 of 2",
        "weak (no success): desk/d/b 0 of 2",
        "learned: success rate 0.400, 95 % sure of 0.118 to 0.769; all 6 trials would have made that 0.130 to 0.748",
    ]
