"""Statistics against scipy, by property, and (slow) by simulation."""

import random
from collections.abc import Callable
from statistics import mean, pstdev

import pytest
from examples import sampled
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_a2a_bench.results import compare, inference
from pytest_a2a_bench.results.baseline import Baseline, TaskRecord
from pytest_a2a_bench.results.inference import (
    Interval,
    PairedTask,
    can_prove,
    drop_interval,
    drop_of,
    paired_p,
    trials_to_prove,
    trials_to_tell,
    wilson,
)


def pairs(*counts: tuple[int, int, int]) -> list[PairedTask]:
    """Return tasks with one trial in each run: (how many, before, after)."""
    return [PairedTask(1, before, 1, after) for many, before, after in counts for _ in range(many)]


@st.composite
def paired(draw: st.DrawFn) -> PairedTask:
    before, after = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    return PairedTask(before, draw(st.integers(0, before)), after, draw(st.integers(0, after)))


@settings(deadline=None)  # the first call imports
@given(st.integers(1, 400), st.data(), st.sampled_from([0.8, 0.9, 0.95, 0.99]))
def test_wilson_is_scipys(trials: int, data: st.DataObject, confidence: float) -> None:
    scipy = pytest.importorskip("scipy.stats")
    successes = data.draw(st.integers(0, trials))
    expected = scipy.binomtest(successes, trials).proportion_ci(confidence, method="wilson")
    assert wilson(successes, trials, confidence) == pytest.approx((expected.low, expected.high), abs=1e-9)


@given(st.floats(0, 0.995))
def test_the_number_of_trials_that_proves_a_rate_is_the_smallest(rate: float) -> None:
    n = trials_to_prove(rate)
    assert can_prove(rate, n)
    assert n == 1 or not can_prove(rate, n - 1)


def test_known_numbers_of_trials_and_what_is_no_rate() -> None:
    for successes, trials in ((0, 0), (3, 2), (-1, 2)):
        with pytest.raises(ValueError, match="is no rate"):
            wilson(successes, trials)
    assert [trials_to_prove(r) for r in (0.0, 0.5, 0.6, 0.9, 0.95)] == [1, 3, 5, 25, 52]
    with pytest.raises(ValueError, match="no number of trials"):
        trials_to_prove(1.0)


@settings(deadline=None)
@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 10))
def test_one_trial_each_is_the_one_sided_mcnemar_test(lost: int, won: int, same: int) -> None:
    scipy = pytest.importorskip("scipy.stats")
    expected = scipy.binomtest(won, won + lost, 0.5, alternative="less").pvalue if won + lost else 1.0
    assert paired_p(pairs((lost, 1, 0), (won, 0, 1), (same, 1, 1))) == pytest.approx(expected)


@settings(deadline=None)
@given(paired())
def test_one_task_is_fishers_exact_test(task: PairedTask) -> None:
    scipy = pytest.importorskip("scipy.stats")
    table = [[task.after_ok, task.after - task.after_ok], [task.before_ok, task.before - task.before_ok]]
    assert paired_p([task]) == pytest.approx(scipy.fisher_exact(table, alternative="less").pvalue)


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(paired(), min_size=1, max_size=12))
def test_an_interval_holds_the_drop_and_swapping_the_runs_turns_it_round(tasks: list[PairedTask]) -> None:
    low, high = drop_interval(tasks, resamples=400)
    assert -1 <= low <= high <= 1
    swapped = [PairedTask(t.after, t.after_ok, t.before, t.before_ok) for t in tasks]
    assert -1 <= low <= drop_of(tasks) + 1e-12
    assert drop_of(tasks) - 1e-12 <= high <= 1
    assert drop_of(swapped) == pytest.approx(-drop_of(tasks))
    assert 0 <= paired_p(tasks) <= 1
    assert drop_interval(tasks, resamples=400) == Interval(low, high), "the seed is fixed"


def test_the_interval_is_close_to_scipys_bootstrap_where_there_are_many_tasks() -> None:
    scipy = pytest.importorskip("scipy.stats")
    numpy = pytest.importorskip("numpy")
    source = random.Random(3)
    tasks = [PairedTask(4, source.randint(1, 4), 4, source.randint(0, 4)) for _ in range(300)]
    theirs = scipy.bootstrap(
        ([t.drop for t in tasks],),
        numpy.mean,
        confidence_level=0.9,
        method="percentile",
        rng=numpy.random.default_rng(1),
    ).confidence_interval
    assert drop_interval(tasks) == pytest.approx((theirs.low, theirs.high), abs=0.006)


def test_the_chance_to_measure_a_floor_is_the_binomial_laws_and_for_many_trials_nearly_so() -> None:
    assert [compare.floor_chance(*case) for case in ((0.5, 0.5, 2), (0.9, 1.0, 3))] == pytest.approx([0.75, 0.729])
    assert compare.floor_chance(1.0, 1.0, 2000) == 1.0
    assert compare.floor_chance(0.9, 0.9, 1001) == pytest.approx(compare.floor_chance(0.9, 0.9, 1000), abs=0.02)


def test_how_many_trials_would_be_enough() -> None:
    tasks = pairs((10, 1, 0), (10, 0, 1), (30, 1, 1))
    few = trials_to_tell(tasks, 0.05)
    assert few > trials_to_tell(tasks, 0.1) > 1
    assert trials_to_tell(pairs((500, 1, 1)), 0.05) == 1
    # 2 (z(0.95) + z(0.8))^2 = 12.365, times 20 variances of 5 * 3 / (8 * 7) and that of one more task, 0.25: 69.3.
    assert trials_to_tell([PairedTask(4, 3, 4, 2)] * 20, 0.05) == 70
    assert trials_to_tell(pairs((40, 1, 1)), 0.05) == 2, "40 trials prove 0.05 for nobody"
    assert drop_interval([PairedTask(2, 2, 2, 2)] * 40).high < 0.05 < drop_interval(pairs((40, 1, 1))).high
    with pytest.raises(ValueError, match="no number of trials"):
        trials_to_tell(tasks, 0.0)
    with pytest.raises(ValueError, match="no task is in both"):
        drop_of([])
    assert drop_interval(pairs((3, 1, 1))).high > 0.2
    assert drop_interval(pairs((60, 1, 1))).high < 0.05


def held(trials: int, chance: float, source: random.Random) -> int:
    """Return how many of some trials succeed by chance."""
    return sum(source.random() < chance for _ in range(trials))


def simulate(chances: list[float], trials: int, source: random.Random) -> list[PairedTask]:
    """Return tasks of two runs of one agent."""
    return [PairedTask(trials, held(trials, c, source), trials, held(trials, c, source)) for c in chances]


@pytest.mark.parametrize("freedom", [2, 5, 20, 500])
def test_students_quantile_is_scipys(freedom: int) -> None:
    scipy = pytest.importorskip("scipy.stats")
    assert inference.student(freedom) == pytest.approx(scipy.t.ppf(0.95, freedom), rel=0.015 if freedom < 20 else 5e-6)


@pytest.mark.parametrize("events", [0, 1, 3, 10, 60])
def test_the_limits_of_rare_events_are_those_of_poisson(events: int) -> None:
    scipy = pytest.importorskip("scipy.stats")
    lost = [1.0] * events + [0.0] * (400 - events)
    assert inference.rare_limit(lost, 1.0) * 400 == pytest.approx(scipy.gamma.ppf(0.95, events + 1), rel=0.015)
    gained = [-d for d in lost]
    most, least = scipy.gamma.ppf(0.95, 1), scipy.gamma.ppf(0.05, events) if events else 0.0
    expected = -events + (most**2 + (events - least) ** 2) ** 0.5
    assert inference.rare_limit(gained, 1.0) * 400 == pytest.approx(expected, abs=0.05)


def evenly(before: float, after: float) -> Callable[[int], list[tuple[float, float]]]:
    return lambda tasks: [(before, after)] * tasks


def as_real_ones(tasks: int) -> list[tuple[float, float]]:
    third = tasks // 3
    middle = [0.05 + 0.9 * i / (tasks - 2 * third) for i in range(tasks - 2 * third)]
    chances = [0.95] * third + middle + [0.05] * third
    return [(c, c * (1 - 0.05 * tasks / sum(chances))) for c in chances]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chances", "tasks", "before", "after"),
    [
        *((evenly(1.0, 0.95), tasks, m, m) for tasks, m in ((38, 1), (80, 1), (10, 4), (50, 4), (9, 8))),
        *((evenly(0.05, 0.0), tasks, m, m) for tasks, m in ((40, 1), (20, 8))),
        *((evenly(0.7, 0.65), tasks, m, m) for tasks, m in ((58, 1), (20, 4), (9, 8))),
        *((as_real_ones, tasks, m, m) for tasks, m in ((50, 1), (50, 4), (20, 8))),
        *((evenly(before, before - 0.1), 5, 8, 8) for before in (1.0, 0.7)),
        *((chances, 60, 4, 1) for chances in (evenly(1.0, 0.95), as_real_ones)),
        *((chances, 60, 1, 4) for chances in (evenly(0.05, 0.0), as_real_ones)),
    ],
)
def test_a_drop_as_large_as_allowed_is_rarely_passed(
    chances: Callable[[int], list[tuple[float, float]]], tasks: int, before: int, after: int
) -> None:
    source, runs = random.Random(5), 1500
    every = chances(tasks)
    allowed = mean(b - a for b, a in every)
    passed = 0
    for _ in range(runs):
        found = [PairedTask(before, held(before, b, source), after, held(after, a, source)) for b, a in every]
        # No limit lies below what was seen.
        passed += drop_of(found) <= allowed and drop_interval(found, resamples=300).high <= allowed
    assert allowed in (pytest.approx(0.05), pytest.approx(0.1))
    assert passed / runs <= inference.LEVEL + 3 * (inference.LEVEL * 0.95 / runs) ** 0.5


@pytest.mark.slow
@pytest.mark.parametrize("allowed", [0.05, 0.1])
def test_the_recommended_number_of_trials_tells(allowed: float) -> None:
    source = random.Random(11)
    chances = [i / 40 for i in range(41)]
    enough = trials_to_tell(simulate(chances, 8, source), allowed)
    shown = [drop_interval(simulate(chances, enough, source), resamples=400).high <= allowed for _ in range(300)]
    assert mean(shown) >= inference.POWER - 0.1


# --- faster forms against the plain ones ------------------------------------------------------------------------------


def one_by_one(tasks: list[PairedTask]) -> float:
    """Return :func:`paired_p` as it is defined: a distribution built task by task, with nothing cut off."""
    chances, observed = [1.0], 0
    for task in tasks:
        total, ok = task.before + task.after, task.before_ok + task.after_ok
        observed += task.after_ok - max(0, ok - task.before)
        if 0 < ok < total:
            more = inference.hypergeometric(total, ok, task.after)
            longer = [0.0] * (len(chances) + len(more) - 1)
            for j, y in enumerate(more):
                for i, x in enumerate(chances):
                    longer[i + j] += x * y
            chances = longer
    return min(1.0, sum(chances[: observed + 1]))


@given(st.lists(paired(), max_size=40))
def test_equal_tasks_are_added_at_once(tasks: list[PairedTask]) -> None:
    assert paired_p(tasks) == pytest.approx(one_by_one(tasks), rel=1e-11)


@pytest.mark.parametrize("worse", [0.0, 0.02, 0.1])
def test_ends_that_hardly_ever_happen_do_not_matter(worse: float) -> None:
    source = random.Random(3)
    sizes = source.choices((1, 2, 4), k=900)
    tasks = [PairedTask(n, held(n, 0.6, source), n, held(n, 0.6 - worse, source)) for n in sizes]
    assert paired_p(tasks) == pytest.approx(one_by_one(tasks), abs=1e-12, rel=1e-9)


@pytest.mark.parametrize("each", [1, 4])
@pytest.mark.parametrize("now", sampled([0.02, 0.3, 0.58, 0.97], 2))
def test_of_many_tasks_a_formula_says_the_same(each: int, now: float, monkeypatch: pytest.MonkeyPatch) -> None:
    source = random.Random(5)
    before = 0.6 if now < 0.9 else 0.98
    tasks = [PairedTask(each, held(each, before, source), each, held(each, now, source)) for _ in range(1_200)]
    by_formula = drop_interval(tasks)
    monkeypatch.setattr(inference, "MANY_TASKS", 10_000)
    by_resamples = drop_interval(tasks)
    drops = [t.drop for t in tasks]
    error = pstdev(drops) / len(drops) ** 0.5
    assert by_formula == pytest.approx(by_resamples, abs=0.15 * error)


def test_a_plan_names_its_price_and_the_trials_that_would_prove_something() -> None:
    names = [f"d/s/{i}" for i in range(20)]
    four = Baseline(dict.fromkeys(names, TaskRecord((True, False, True, False))), cost_usd=0.01)
    assert compare.outlook(four, names, 4, 0.05) == (
        "20 tasks x 4: 80 conversations, $0.80; to prove that an unchanged agent is within 0.05, about 86 trials of "
        "each task in both runs would be enough (there are 4): 1,720 conversations, $17.20"
    )
    one = Baseline(dict.fromkeys(names, TaskRecord((True,))))
    assert compare.outlook(one, names, 4, 0.05) == "20 tasks x 4: 80 conversations"
