"""The gate ``robust``: what noise costs, by the paired test of baselines."""

import dataclasses
from pathlib import Path

import pytest
from commands import refused
from finished_runs import write_run
from made_trials import made_trial

from pytest_a2a_bench.config.settings import NOISY, PLAIN, Settings
from pytest_a2a_bench.model import Reward, TrialKey, TrialResult
from pytest_a2a_bench.results.gates.judge import judge_run
from pytest_a2a_bench.results.gates.noise import judge_noise, noise_option
from pytest_a2a_bench.results.gates.terms import GateResult, Trials, is_counted, thresholds_of

PAIR = Settings(agents={PLAIN: "http://a", NOISY: "http://a"}, noise={"wrong": 0.1}, max_noise_loss=0.1)


def trial(task: int, agent: str, success: bool, *kinds: str) -> TrialResult:
    events = [{"id": f"{kind}:x", "kind": kind, "turn": 1} for kind in kinds]
    return TrialResult(
        TrialKey("tau2", "airline", str(task), agent=agent),
        "evaluated",
        reward_info=Reward(float(success)),
        provenance={"noise": {"events": events}} if agent == NOISY else {},
    )


def pairs(*outcomes: tuple[bool, bool], kind: str = "wrong") -> list[TrialResult]:
    return [
        result
        for task, (plain, noisy) in enumerate(outcomes)
        for result in (trial(task, PLAIN, plain), trial(task, NOISY, noisy, kind))
    ]


def gate(results: list[TrialResult], allowed: float | None = 0.1) -> GateResult:
    return judge_noise(Trials(results), allowed)[0]


def test_losses_by_kind_of_noise() -> None:
    results = pairs(*[(True, False)] * 8, *[(True, True)] * 2)
    results += [trial(20, PLAIN, True), trial(20, NOISY, False, "partial", "tool-error")]
    found = gate(results)
    assert (found.verdict, found.word) == ("regressed", "regressed")
    assert "lost 0.818" in found.sentence
    assert "9 trials lost: 8 after wrong, 1 after several kinds" in found.sentence
    assert found.details[-1] == "wrong: 10 trials, 10 succeeded plain, 2 with noise"


def test_a_lost_trial_counts_once_for_the_noise_that_goes_with_losses() -> None:
    """An agent that repeats calls that fail, and believes wrong data, is not told that failing calls cost it tasks."""
    results = []
    for task in range(40):
        kinds = [kind for kind, every in (("tool-error", 2), ("wrong", 5), ("partial", 39)) if task % every == 0]
        results += [trial(task, PLAIN, True), trial(task, NOISY, "wrong" not in kinds, *kinds)]
    assert "8 trials lost: 8 after wrong;" in gate(results).sentence


@pytest.mark.parametrize(
    ("outcomes", "verdict"), [([(True, True)] * 60, "pass"), ([(True, False)] + [(True, True)] * 4, "inconclusive")]
)
def test_verdicts(outcomes: list[tuple[bool, bool]], verdict: str) -> None:
    assert gate(pairs(*outcomes)).verdict == verdict


def test_without_a_limit_it_advises_only() -> None:
    assert gate(pairs(*[(True, False)] * 10), None).tier == "advisory"
    chosen = gate([trial(1, NOISY, False, "wrong")], None)
    assert (chosen.tier, chosen.refused, chosen.verdict) == ("advisory", False, "inconclusive")


def test_a_kind_is_named_that_goes_with_losses_more_than_by_chance() -> None:
    results = pairs(*[(True, True)] * 16)
    for task in (20, 21):
        results += [trial(task, PLAIN, True), trial(task, NOISY, False, "tool-timeout", ("partial", "wrong")[task % 2])]
    results += [
        result
        for task in range(30, 36)
        for result in (trial(task, PLAIN, True), trial(task, NOISY, True, "tool-timeout"))
    ]
    assert "2 trials lost: 2 after several kinds;" in gate(results).sentence
    results = pairs(*[(True, True)] * 6, kind="partial")
    for task in (30, 31):
        results += [trial(task, PLAIN, True), trial(task, NOISY, False, "wrong", "partial")]
    # Both of two hit ones, and none of six others: by chance once in 28.
    assert "2 trials lost: 2 after wrong;" in gate(results).sentence


def test_errors_never_help_and_no_noise_is_reported() -> None:
    results = pairs(*[(True, True)] * 60)
    results[1] = dataclasses.replace(results[1], status="infrastructure_error", reward_info=None)
    found = gate(results)
    assert (found.verdict, "could not be evaluated" in found.sentence) == ("inconclusive", True)
    results = [trial(1, PLAIN, True), trial(1, NOISY, True)]
    assert "no call was hit" in gate(results).sentence


def test_a_run_judges_the_plain_trials_and_the_loss() -> None:
    settings = dataclasses.replace(PAIR, min_pass={"": 0.9})
    results = pairs(*[(True, False)] * 20)
    verdict = judge_run(Trials(results), thresholds_of(settings), settings, None)
    assert {found.name: found.verdict for found in verdict.gates} == {"min_pass": "pass", "robust": "regressed"}
    assert verdict.failed
    assert [is_counted(result, PAIR) for result in results[:2]] == [False, True]
    for chosen in ({"min_pass": {"": 0.9}}, {"baseline": "b.json"}, {"agents": {"a": "http://a", "b": "http://b"}}, {}):
        assert is_counted(results[0], Settings(**chosen)) == bool(chosen), chosen


def test_the_option_that_repeats_a_trials_noise() -> None:
    noisy = TrialResult(TrialKey("s", "d", "1"), "evaluated", provenance={"noise": {"rates": {"wrong": 0.1, "x y": 1}}})
    none = dataclasses.replace(noisy, provenance={"noise": {"rates": {}}})
    said = [noise_option(result) for result in (noisy, none, trial(1, PLAIN, True))]
    assert said == ["--a2a-noise 'wrong=0.1,x y=1' ", "", ""]


def test_a_limit_is_refused_where_no_trial_had_noise(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [made_trial("tau2/airline/1#0")])
    assert "this one has no trial with noise" in refused("gate", run, "--max-noise-loss", "0.1")
