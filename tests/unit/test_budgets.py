"""Where a budget goes, and what rates and limits are worth that were measured so."""

from __future__ import annotations

import json
import random
from itertools import product
from pathlib import Path
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_a2a_bench.cli.main import main
from pytest_a2a_bench.results.budget import Known, Stratum, allot, drop_limits, estimate, worth
from pytest_a2a_bench.results.inference import PairedTask

known_tasks = st.lists(st.tuples(st.integers(0, 8), st.integers(1, 8)), min_size=1, max_size=12).map(
    lambda found: {str(i): Known(min(ok, trials), trials) for i, (ok, trials) in enumerate(found)}
)


@given(known_tasks, st.integers(1, 8), st.integers(0, 100))
def test_a_budget_is_spent_and_never_overspent(known: dict[str, Known], most: int, more: int) -> None:
    budget = len(known) + more
    found = allot(dict.fromkeys(known, most), known, budget)
    assert sum(found.values()) == min(budget, most * len(known))
    assert all(1 <= trials <= most for trials in found.values())


def test_each_trial_goes_where_it_narrows_most() -> None:
    known = {"sure": Known(8, 8), "odd": Known(4, 8), "never": Known(0, 8)}
    least, variance = 2, {n: (k.ok + 0.25) * (k.trials - k.ok + 0.25) / (8.5 * 9.5) for n, k in known.items()}
    found = allot(dict.fromkeys(known, 9), known, 15)
    every = (n for n in product(range(least, 10), repeat=3) if sum(n) == 15)
    # Half of the interval's four made-up trials, shared by the tasks.
    best = min(every, key=lambda e: sum(v / n + 2 / 3 / n**2 for v, n in zip(variance.values(), e, strict=True)))
    assert tuple(found.values()) == best


@pytest.mark.parametrize("ok", [0, 4])
def test_what_is_alike_is_given_alike(ok: int) -> None:
    known = dict.fromkeys("abcde", Known(ok, 4))
    assert sorted(allot(dict.fromkeys(known, 8), known, 17).values()) == [3, 3, 3, 4, 4]


def test_a_budget_without_room_for_each_task_is_refused() -> None:
    with pytest.raises(ValueError, match="5 is less than 6, 2 of each of 3 tasks"):
        allot(dict.fromkeys("abc", 4), {}, 5, least=2)


def test_what_counts_in_no_rate_gets_no_more_than_the_least() -> None:
    known = dict.fromkeys("abc", Known(1, 2))
    assert allot(dict.fromkeys("abc", 8), known, 14, uncounted=["b"])["b"] == 2


def test_a_rate_is_right_on_average_wherever_the_trials_went() -> None:
    """Exact: over all outcomes of unequally many trials."""
    chances, trials = (0.9, 0.4, 0.1), (1, 3, 2)
    expected = 0.0
    for outcome in product((0, 1), repeat=sum(trials)):
        rest, likely, tasks = list(outcome), 1.0, []
        for chance, number in zip(chances, trials, strict=True):
            own, rest = rest[:number], rest[number:]
            for one in own:
                likely *= chance if one else 1 - chance
            tasks.append(Stratum(number, sum(own)))
        expected += likely * estimate(tasks).rate
    assert expected == pytest.approx(mean(chances))


def test_the_baseline_is_used_where_it_narrows_the_interval() -> None:
    tasks = [Stratum(1, 1)] * 10 + [Stratum(1, 0)] * 10 + [Stratum(6, 3)] * 5
    guessed = [t._replace(guess=float(t.ok)) for t in tasks[:20]] + tasks[20:]
    wrong = [t._replace(guess=1.0 - t.ok) for t in tasks[:20]] + tasks[20:]
    plain, better, worse = map(estimate, (tasks, guessed, wrong))
    assert better.high - better.low < 0.8 * (plain.high - plain.low)
    assert (plain.guessed, better.guessed, worse.guessed) == (0, 20, 0)
    assert worse == plain


def test_agreement_of_all_is_no_certainty() -> None:
    found = estimate([Stratum(2, 2)] * 10)
    assert found.high == 1.0
    assert found.low < 0.95
    low, high = drop_limits([PairedTask(4, 4, 2, 2)] * 10)
    assert low == -high
    assert high > 0.03


def test_limits_hold_as_often_as_they_say() -> None:
    """Few runs: ``python perf/gates.py budget`` has the tables."""
    source = random.Random(7)
    chances = [0.98] * 10 + [0.2, 0.4, 0.5, 0.6, 0.8] * 2 + [0.02] * 10
    names = [str(i) for i in range(len(chances))]
    held = dict.fromkeys(("rate", "drop"), 0)
    for _ in range(300):
        known = {n: Known(sum(source.random() < p for _ in range(6)), 6) for n, p in zip(names, chances, strict=True)}
        trials = allot(dict.fromkeys(names, 12), known, 120)
        ok = {n: sum(source.random() < p for _ in range(trials[n])) for n, p in zip(names, chances, strict=True)}
        _, low, high, _ = estimate([Stratum(trials[n], ok[n]) for n in names])
        held["rate"] += low <= mean(chances) <= high
        low, high = drop_limits([PairedTask(6, known[n].ok, trials[n], ok[n]) for n in names], 0.025)
        held["drop"] += low <= 0 <= high
    assert held["rate"] >= 280
    assert held["drop"] >= 280


@pytest.mark.parametrize("ok", [0, 4])
def test_what_a_budget_is_worth_is_not_known_where_all_ended_alike(ok: int) -> None:
    known = dict.fromkeys("abcde", Known(ok, 4))
    assert worth(dict.fromkeys(known, 4), known) == 0


def test_what_a_budget_is_worth_depends_on_the_tasks() -> None:
    unlike = {f"a{i}": Known(8 * (i % 2), 8) for i in range(40)} | {f"b{i}": Known(4, 8) for i in range(10)}
    alike = {f"a{i}": Known(4, 8) for i in range(50)}
    spent = [worth(allot(dict.fromkeys(known, 16), known, 200), known) for known in (unlike, alike)]
    assert spent[0] > 300
    assert spent[1] < 220


@pytest.mark.slow
def test_a_plan_says_what_a_budget_buys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = ([1, 1, 1, 1], [1, 0, 1, 0])
    tasks = {f"desk/front/{i}": {"outcomes": outcomes[i], "errors": 0} for i in range(2)}
    head = {"schema": "a2a-bench/baseline", "schema_version": 1, "measured": {}, "cost_usd": 0.25}
    path = tmp_path / "b.json"
    path.write_text(json.dumps({**head, "tasks": tasks}))
    assert main(["plan", f"--baseline={path}", "--budget=$1.75"]) == 0
    *_, told, _, chances = capsys.readouterr().out.splitlines()
    assert told.startswith("a budget of 7 conversations, $1.75: 2 tasks, 3 to 4 trials each")
    assert chances.count("%") == 6
    for options, why in {
        ("--budget=1",): "--budget: 1 is less than 2, 1 of each of 2 tasks",
        ("--budget=$0.1",): "--budget: it pays for no conversation: one cost $0.25 in",
        ("--budget=9", "--tasks=4"): "leave --tasks out",
    }.items():
        assert main(["plan", f"--baseline={path}", *options]) == 2
        assert why in capsys.readouterr().err
    assert main(["plan", "--min-pass=0.5", "--budget=9"]) == 2
    assert "add --baseline FILE" in capsys.readouterr().err
