"""Thresholds and a baseline make a verdict."""

import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_a2a_bench.model import Reward, TrialKey, TrialResult, TrialStatus, Usage, UserFault
from pytest_a2a_bench.results.baseline import Baseline
from pytest_a2a_bench.results.gates.files import StoredVerdict
from pytest_a2a_bench.results.gates.judge import judge, judge_agents
from pytest_a2a_bench.results.gates.terms import (
    Decision,
    GateResult,
    Thresholds,
    Trials,
    Verdict,
    find_missed,
    groups_of,
    was_run,
)


def trial(
    task: str,
    number: int = 0,
    *,
    ok: bool = True,
    status: TrialStatus = "evaluated",
    domain: str = "airline",
    seconds: tuple[float, ...] = (),
    cost: float | None = None,
    provenance: dict[str, str] | None = None,
    metrics: dict[str, float] | None = None,
) -> TrialResult:
    return TrialResult(
        TrialKey("tau2", domain, task, number),
        status,
        run_id="r",
        reward_info=Reward(float(ok), info={"metrics": metrics or {}}) if status == "evaluated" else None,
        turn_latencies=seconds,
        agent_usage=Usage(cost_usd=cost),
        provenance=provenance or {},
    )


def run(ok: int, bad: int = 0, errors: int = 0) -> list[TrialResult]:
    """Return one trial of each of several tasks."""
    good = [trial(f"t{i}") for i in range(ok)]
    missed = [trial(f"t{i}", ok=False) for i in range(ok, ok + bad)]
    return good + missed + [trial(f"e{i}", status="infrastructure_error") for i in range(errors)]


def only(verdict: Verdict) -> GateResult:
    [gate] = verdict.gates
    return gate


def test_what_is_asked_of_a_run_and_what_was_run() -> None:
    assert [Thresholds(**asked).ask for asked in ({}, {"max_cost": 0.0}, {"max_metric": {"m": 1.0}})] == [
        False,
        True,
        True,
    ]
    for rate, bad, may_fail in ((0.0, 3, False), (0.5, 0, True), (0.5, 3, True)):
        gate = only(judge(Trials(run(1, bad)), Thresholds(min_pass={"": rate})))
        assert (gate.verdict, gate.may_fail) == ("failed" if rate and bad else "pass", may_fail)
    stopped = dataclasses.replace(trial("a", status="infrastructure_error"), error_type="TrialCancelledError")
    assert [was_run(r) for r in (*run(1, 1, 1), trial("b", status="not_run"), stopped)] == [True] * 3 + [False] * 2


def test_without_thresholds_every_trial_must_succeed() -> None:
    assert only(judge(Trials(run(3)), Thresholds())).verdict == "pass"
    assert only(judge(Trials(run(3, 1)), Thresholds())).verdict == "failed"
    trusting = judge(Trials(run(3, 1), failed=frozenset()), Thresholds())
    assert only(trusting).verdict == "pass", "its test asked for less than success"
    strict = judge(Trials(run(3), failed=frozenset({"tau2/airline/t0#0"})), Thresholds())
    assert (only(strict).verdict, only(strict).numbers["ok"]) == ("failed", 2)
    verdict = judge(Trials(run(3, 0, 1)), Thresholds())
    assert (only(verdict).verdict, verdict.outcome, verdict.errors) == ("inconclusive", "inconclusive", 1)
    assert only(verdict).sentence == "3 of 4 trials passed, and 1 could not be evaluated; each of them must"


@settings(deadline=None)
@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 10), st.floats(0, 0.99))
def test_a_floor_is_over_every_trial_that_was_not_skipped(ok: int, bad: int, errors: int, rate: float) -> None:
    results = [*run(ok, bad, errors), trial("s", status="skipped")]
    verdict = judge(Trials(results), Thresholds(min_pass={"": rate}))
    gate = only(verdict)
    if not ok + bad:
        assert (gate.verdict, gate.sentence) == ("inconclusive", "nothing to judge: no trial was evaluated")
        return
    assert (gate.numbers["ok"], gate.numbers["trials"], gate.numbers["errors"]) == (ok, ok + bad + errors, errors)
    assert (gate.verdict == "pass") == (ok / (ok + bad + errors) >= rate - 1e-12)
    assert verdict.errors == errors
    assert verdict.outcome != "pass" or not errors


def test_no_trial_is_lost_between_floors_and_misses() -> None:
    gate = only(judge(Trials(run(3), lost=1), Thresholds(min_pass={"": 0.8})))
    assert (gate.verdict, gate.numbers["rate"]) == ("failed", 0.75)
    assert gate.sentence.startswith("3 of 4 trials succeeded, 0.750; the minimum is 0.8 ")
    results = [trial("1", ok=False), trial("2"), trial("1", domain="retail", ok=False)]
    verdict = judge(Trials(results), Thresholds(min_pass={"airline": 0.5}))
    assert [(g.name, g.verdict) for g in verdict.gates] == [("every_trial", "failed"), ("min_pass[airline]", "pass")]
    results = [*run(1, 2), trial("e", ok=False, status="infrastructure_error")]
    assert [r.key.task_id for r in find_missed(results, {"tau2/airline/t2#0"})] == ["t1"]


def test_floors_by_group() -> None:
    results = [trial("1"), trial("2", ok=False), trial("1", domain="retail", provenance={"category": "refund"})]
    floors = {"airline": 0.5, "tau2/retail": 0.9, "refund": 0.9, "tau2": 0.7, "banking": 0.5}
    verdict = judge(Trials(results), Thresholds(min_pass=floors))
    assert {gate.name: gate.verdict for gate in verdict.gates} == {
        "min_pass[airline]": "pass",
        "min_pass[tau2/retail]": "pass",
        "min_pass[refund]": "pass",
        "min_pass[tau2]": "failed",
    }
    assert verdict.notes == ("not judged, because there is no trial of it: min_pass[banking]",)
    plain = ("crm", "mini", "crm/mini", "handle_time", "crm/mini/handle_time")
    assert groups_of("crm", "mini", "handle_time") == (*plain, "@blameless", *(f"{name}@blameless" for name in plain))


def test_a_floor_may_be_of_the_trials_whose_user_did_its_part() -> None:
    blamed = [dataclasses.replace(r, user_fault=UserFault("ended_before_the_write")) for r in run(0, 2)]
    unproven = [dataclasses.replace(trial("u", ok=False), user_fault=UserFault("not_understood"))]
    results = [
        *run(6),
        *(dataclasses.replace(r, key=TrialKey("tau2", "retail", r.key.task_id)) for r in blamed),
        *unproven,
    ]
    floors = {"": 0.5, "@blameless": 0.8, "retail@blameless": 0.1, "airline@blameless": 0.9}
    found = {gate.name: gate for gate in judge(Trials(results), Thresholds(min_pass=floors)).gates}
    assert (found["min_pass"].numbers["ok"], found["min_pass"].numbers["trials"]) == (6, 9)
    assert found["min_pass"].sentence.endswith("; 0.86 of 7 trials whose user did its part")
    assert (found["min_pass[@blameless]"].numbers["trials"], found["min_pass[@blameless]"].verdict) == (7, "pass")
    assert "whose user" not in found["min_pass[@blameless]"].sentence
    assert found["min_pass[airline@blameless]"].verdict == "failed"
    assert found["min_pass[retail@blameless]"].sentence.startswith("nothing to judge")
    # A gate counts the misses of users at fault, too: no item fails by them.
    assert "every_trial" not in found
    stored = StoredVerdict.of(judge(Trials(results), Thresholds()), "r", Trials(results)).trials
    assert (stored.user_faults, stored.blameless, stored.blameless_succeeded) == (3, 7, 6)


def test_named_trials_have_no_rate() -> None:
    thresholds = Thresholds(min_pass={"": 0.1}, min_pass_k={2: 0.1})
    verdict = judge(Trials(run(5, 1), named=True), thresholds, Baseline.of(run(6)))
    assert only(verdict).name == "every_trial"
    assert verdict.notes == ("not judged, because only trials that were named ran: min_pass, min_pass_k[2], baseline",)


def test_quarantined_tasks_count_in_no_rate_but_their_errors_are_errors() -> None:
    results = [*run(4), trial("q", ok=False), trial("p", status="infrastructure_error")]
    quarantined = frozenset({"tau2/airline/q", "tau2/airline/p"})
    verdict = judge(Trials(results, quarantined=quarantined), Thresholds(min_pass={"": 0.9}))
    assert only(verdict).numbers["trials"] == 4
    assert (only(verdict).verdict, verdict.errors, verdict.outcome) == ("pass", 1, "inconclusive")


def test_a_run_of_quarantined_trials_alone_does_not_pass() -> None:
    results = [*run(0, 2), trial("s", status="skipped")]
    quarantined = frozenset({"tau2/airline/t0", "tau2/airline/t1"})
    verdict = judge(Trials(results, quarantined=quarantined), Thresholds())
    assert only(verdict).name == "quarantine"
    assert only(verdict).sentence == "nothing to judge: 2 trials of it were skipped or are quarantined"
    assert (verdict.outcome, verdict.failed) == ("inconclusive", True)
    lenient = judge(Trials(results, quarantined=quarantined), Thresholds(inconclusive="pass"))
    assert not lenient.failed
    # Whoever names a quarantined trial wants to see it.
    assert judge(Trials(results, quarantined=quarantined, named=True), Thresholds()).gates == ()


def test_pass_hat_k() -> None:
    results = [trial("1", 0), trial("1", 1), trial("2", 0), trial("2", 1, ok=False)]
    assert only(judge(Trials(results), Thresholds(min_pass_k={2: 0.5}))).verdict == "pass"
    assert only(judge(Trials(results), Thresholds(min_pass_k={2: 0.6}))).verdict == "failed"
    error = trial("2", 1, status="infrastructure_error")
    assert only(judge(Trials([*results[:3], error]), Thresholds(min_pass_k={2: 0.5}))).numbers["value"] == 0.5
    gate = only(judge(Trials(results[:3]), Thresholds(min_pass_k={2: 0.5})))
    assert (gate.verdict, gate.sentence) == (
        "inconclusive",
        "pass^2 is not known: 1 of 2 tasks have fewer than 2 trials",
    )


class TestBaseline:
    def test_a_drop_beyond_what_is_allowed_and_no_accident_regresses(self) -> None:
        gate = only(judge(Trials(run(12, 8)), Thresholds(), Baseline.of(run(20))))
        assert (gate.verdict, gate.numbers["better"], gate.numbers["worse"]) == ("regressed", 0, 8)
        assert gate.numbers["p"] == pytest.approx(0.5**8)
        assert gate.numbers["before"]["wilson"][0] == pytest.approx(0.8389, abs=1e-3)
        assert only(judge(Trials(run(192, 8)), Thresholds(max_drop=0.1), Baseline.of(run(200)))).verdict == "pass"
        gate = only(judge(Trials(run(7, 3)), Thresholds(), Baseline.of(run(10))))
        assert gate.verdict == "inconclusive"
        assert gate.numbers["trials_enough"] > 1
        assert "too few trials to tell" in gate.sentence

    def test_errors_may_hide_a_drop(self) -> None:
        before = Baseline.of(run(60))
        names = [r.key.task_id for r in run(60)]
        now = [trial(n) for n in names[:55]] + [trial(n, status="infrastructure_error") for n in names[55:]]
        extra = [trial(n, 1) for n in names[55:]]
        verdict = judge(Trials(now + extra), Thresholds(max_drop=0.06), before)
        gate = only(verdict)
        assert (gate.verdict, verdict.errors) == ("inconclusive", 5)
        assert "with them as misses the drop may be larger" in gate.sentence
        one = trial(names[0], status="infrastructure_error")
        assert only(judge(Trials([one, *now[1:55], *extra]), Thresholds(max_drop=0.2), before)).verdict == "pass"

    def test_results_under_other_conditions_are_always_refused(self) -> None:
        def of(**provenance: str) -> list[TrialResult]:
            return [trial(f"t{i}", provenance=provenance) for i in range(80)]

        before = Baseline.of(of(user="scripted", benchmark="tau2 1"), "old.json")
        verdict = judge(Trials(of(user="llm", benchmark="tau2 1", judge="m")), Thresholds(inconclusive="pass"), before)
        assert verdict.failed
        assert only(verdict).sentence == (
            "not comparable with old.json: tau2/airline: user was scripted and is llm; run with the settings of the "
            "baseline, or make a new baseline: a2a-bench gate RESULTS-DIR --write-baseline FILE"
        )
        same = judge(Trials(of(user="scripted", benchmark="tau2 1", judge="m")), Thresholds(), before)
        assert only(same).verdict == "pass", "whether somebody was judged at all depends on the tasks"

    def test_what_was_decided_by_tasks_that_changed_is_no_verdict(self) -> None:
        def of(version: str) -> list[TrialResult]:
            return [*run(60), trial("c", provenance={"task_version": version})]

        decided = {"baseline": Decision("pass", 8, 61)}
        _, gate = judge(Trials(of("2"), decided=decided), Thresholds(), Baseline.of(of("1"))).gates
        assert (gate.verdict, gate.refused) == ("inconclusive", True)
        assert gate.sentence.startswith(
            "1 task changed since the baseline and is not compared, and the run ended early"
        )

    def test_tasks_of_one_run_alone_are_counted_out_and_no_common_one_is_refused(self) -> None:
        verdict = judge(Trials([trial("a")]), Thresholds(inconclusive="pass"), Baseline.of([trial("b")]))
        assert verdict.failed
        assert "no task was evaluated both" in only(verdict).sentence
        before = Baseline.of([*run(60), trial("old")])
        new = trial("new", ok=False)
        every, gate = judge(
            Trials([*run(60), new], failed=frozenset(), excused=frozenset([str(new.key)])), Thresholds(), before
        ).gates
        assert (gate.verdict, gate.numbers["tasks"]) == ("pass", 60)
        assert gate.sentence.endswith("only in the baseline: 1 task, only now: 1")
        # No gate counts it, so that it must succeed.
        assert (every.verdict, every.sentence.partition(";")[0]) == ("failed", "0 of 1 trial passed")
        assert "each of them must, as the baseline does not judge tau2/airline/new; make a new" in every.sentence
        assert judge(Trials([*run(60), new]), Thresholds(min_pass={"": 0.5}), before).outcome == "pass"


class TestCeilings:
    def test_cost_and_latency(self) -> None:
        thresholds = Thresholds(min_pass={"": 0.1}, max_cost=3.0)
        for more, word in (
            ([], "pass"),
            ([trial("3", cost=0.1)], "failed"),
            ([trial("3")], "inconclusive"),
            ([trial("3", status="infrastructure_error")], "pass"),
            # The tokens of a user's model without a price may have cost anything.
            ([dataclasses.replace(trial("3", cost=0.0), user_usage=Usage(10, 10))], "inconclusive"),
        ):
            dear = [trial("1", cost=1.0), trial("2", cost=2.0), *more]
            assert judge(Trials(dear), thresholds).gates[-1].verdict == word
        unknown = judge(Trials([trial("3")]), thresholds).gates[-1]
        assert (unknown.verdict, unknown.sentence) == (
            "inconclusive",
            "the cost of no trial is known; the maximum is $3",
        )
        results = [trial("1", seconds=(1.0, 2.0)), trial("2", seconds=(3.0, 10.0))]
        verdict = judge(Trials(results), Thresholds(min_pass={"": 0.1}, max_latency={50: 2.5, 95: 8}))
        assert [(g.name, g.verdict) for g in verdict.gates[1:]] == [
            ("max_latency[p50]", "pass"),
            ("max_latency[p95]", "failed"),
        ]

    def test_numbers_of_rewards(self) -> None:
        kept, leaked = {"leak": 0.0, "over_refusal": 0.0}, {"leak": 1.0, "over_refusal": 0.0}
        results = [*(trial(str(i), metrics=kept) for i in range(9)), trial("9", ok=False, metrics=leaked), trial("x")]
        thresholds = Thresholds(min_pass={"": 0.1}, max_metric={"leak": 0.0, "over_refusal": 0.05})
        leak, over = judge(Trials(results), thresholds).gates[1:]
        assert (leak.name, leak.verdict, leak.shown) == ("max_metric[leak]", "failed", "above the ceiling")
        assert leak.numbers == {"trials": 10, "errors": 0, "value": 0.1, "maximum": 0.0}
        assert (over.name, over.verdict) == ("max_metric[over_refusal]", "pass")
        cut = judge(Trials(results, cut_short=True, selected=60), thresholds).gates[1:]
        assert [gate.verdict for gate in cut] == ["failed", "inconclusive"], "a leak stays one"
        loose = judge(Trials(results), Thresholds(max_metric={"leak": 0.1})).gates[-1]
        assert loose.verdict == "pass", "equal is not above"

    def test_an_error_may_have_been_a_leak(self) -> None:
        kept = trial("1", metrics={"leak": 0.0})
        error = trial("2", status="infrastructure_error")
        other = trial("2", domain="retail", status="infrastructure_error")
        of_kind = {kind: {"category": kind} for kind in ("privacy", "sales")}
        private = trial("1", metrics={"leak": 0.0}, provenance=of_kind["privacy"])
        unknown = {
            kind: trial("2", status="harness_error", provenance=of_kind.get(kind)) for kind in (*of_kind, "unknown")
        }
        for trials, ceiling, verdict in (
            (Trials([kept, error]), 0.0, "inconclusive"),
            (Trials([kept, error]), 0.5, "pass"),  # whatever it was
            (Trials([kept], lost=1), 0.0, "inconclusive"),
            (Trials([kept, other]), 0.0, "pass"),  # its kind has no such number
            (Trials([private, unknown["privacy"]]), 0.0, "inconclusive"),
            (Trials([private, unknown["sales"]]), 0.0, "pass"),
            (Trials([private, unknown["unknown"]]), 0.0, "inconclusive"),
        ):
            assert judge(trials, Thresholds(max_metric={"leak": ceiling})).gates[-1].verdict == verdict

    @pytest.mark.parametrize("odd", [float("nan"), -1.0, 1.5, float("inf")])
    def test_a_metric_outside_0_to_1_or_of_no_reward_is_below_no_ceiling(self, odd: float) -> None:
        results = [trial("1", metrics={"leak": 1.0}), trial("2", metrics={"leak": odd})]
        for limit, verdict in ((0.4, "failed"), (0.9, "inconclusive"), (1.0, "inconclusive")):
            gate = judge(Trials(results), Thresholds(max_metric={"leak": limit})).gates[-1]
            assert gate.verdict == verdict
            assert "of 1 trial it is no number from 0 to 1 (tau2/airline/2#0: " in gate.sentence or verdict == "failed"
        alone = judge(Trials(results[1:]), Thresholds(max_metric={"leak": 1.0})).gates[-1]
        assert (alone.verdict, alone.numbers["trials"]) == ("inconclusive", 0)
        of_none = judge(Trials([trial("1", metrics={"leak": 0.0})]), Thresholds(max_metric={"leek": 0.0}))
        gate = of_none.gates[-1]
        assert (gate.verdict, of_none.fails(gate)) == ("inconclusive", True)
        assert gate.sentence == "nothing to judge: no reward of 1 trial has a number leek"

    @pytest.mark.parametrize(
        ("limit", "verdict"), [(2, "pass"), (1, "failed"), (0.2, "pass"), (0.19, "failed"), (1.0, "pass")]
    )
    def test_infrastructure_errors_and_user_faults(self, limit: float, verdict: str) -> None:
        results = [*run(7, 0, 1), trial("b", status="harness_error"), trial("s", status="skipped")]
        gate = judge(Trials(results, lost=0), Thresholds(max_infra_errors=limit)).gates[-1]
        assert gate.verdict == "pass", "the harness error is none of the infrastructure"
        assert "1 of 9 trials" in gate.sentence, "a skipped trial is in no denominator"
        assert judge(Trials(results[:9], lost=1), Thresholds(max_infra_errors=limit)).gates[-1].verdict == verdict
        blamed = [dataclasses.replace(r, user_fault=UserFault("never_stopped")) for r in run(0, 2)]
        faults = [*run(7), *blamed, dataclasses.replace(trial("u"), user_fault=UserFault("not_understood"))]
        gate = judge(Trials(faults), Thresholds(max_user_faults=limit, min_pass={"": 0})).gates[-1]
        assert (gate.name, gate.verdict) == ("max_user_faults", verdict)
        assert "the simulated user was proven to be at fault in 2 of 10 trials" in gate.sentence


class TestCutShort:
    @pytest.mark.parametrize(
        ("selected", "verdict"),
        [(0, "inconclusive"), (10, "inconclusive"), (9, "failed"), (6, "failed")],
        ids=["who knows", "may be kept", "is lost", "over"],
    )
    def test_a_floor_is_lost_only_if_the_rest_cannot_rescue_it(self, selected: int, verdict: str) -> None:
        trials = Trials(run(1, 4, 1), cut_short=True, selected=selected)
        gate = only(judge(trials, Thresholds(min_pass={"": 0.5})))
        assert gate.verdict == verdict
        assert gate.sentence.startswith("the run was cut short; so far: 1 of 6 trials succeeded")
        good = judge(Trials(run(20), cut_short=True), Thresholds(min_pass={"": 0.5}))
        assert (only(good).verdict, good.failed) == ("inconclusive", True)
        assert not dataclasses.replace(good, inconclusive="pass").failed

    def test_what_was_decided_stays_and_what_depends_on_the_rest_is_not_reported(self) -> None:
        decided = {"min_pass": Decision("pass", 8, 30)}
        trials = Trials(run(8), cut_short=True, selected=30, decided=decided)
        floor, refused = judge(trials, Thresholds(min_pass={"": 0.5}), Baseline.of([trial("other")])).gates
        assert (floor.verdict, floor.decided_after) == ("pass", 8)
        assert refused.sentence == "no task was evaluated both in this run and in the baseline"
        trials = Trials(run(1, 19), cut_short=True, selected=60)
        verdict = judge(trials, Thresholds(min_pass_k={1: 0.5}), Baseline.of(run(60)))
        assert {g.name: g.verdict for g in verdict.gates} == {
            "min_pass_k[1]": "inconclusive",
            "baseline": "inconclusive",
        }

    def test_a_miss_where_none_is_allowed_and_what_was_spent_stay(self) -> None:
        thresholds = Thresholds(max_cost=1.0, max_latency={95: 1.0}, max_infra_errors=0)
        results = [trial("1", ok=False, cost=2.0, seconds=(2.0,)), trial("2", status="infrastructure_error")]
        verdict = judge(Trials(results, cut_short=True, selected=60), thresholds)
        assert {g.name: g.verdict for g in verdict.gates} == {
            "every_trial": "failed",
            "max_cost": "failed",
            "max_latency[p95]": "inconclusive",
            "max_infra_errors": "failed",
        }
        share = judge(Trials(results, cut_short=True, selected=60), Thresholds(max_infra_errors=0.1))
        assert share.gates[-1].verdict == "inconclusive"


EVERY_GATE = Thresholds(
    min_pass={"": 0.5, "retail": 0.5},
    min_pass_k={2: 0.1},
    max_cost=9.0,
    max_latency={95: 9.0},
    max_infra_errors=0.1,
    max_metric={"leak": 0.0},
)
GATES = (
    *("min_pass", "min_pass[retail]", "min_pass_k[2]", "baseline", "max_cost", "max_latency[p95]", "max_metric[leak]"),
    "max_infra_errors",
)


class TestNothingWasJudged:
    @pytest.mark.parametrize(
        "trials",
        [
            Trials([], selected=9),
            Trials([trial("1", status="skipped"), trial("2", domain="retail", status="skipped")], selected=2),
            Trials([trial("1", status="harness_error"), trial("2", domain="retail", status="harness_error")]),
        ],
        ids=["skipped before they began", "skipped", "errors"],
    )
    def test_each_gate_that_was_asked_for_is_inconclusive(self, trials: Trials) -> None:
        verdict = judge(trials, EVERY_GATE, Baseline.of(run(9)))
        assert [(g.name, g.verdict) for g in verdict.gates] == [(name, "inconclusive") for name in GATES]
        assert (verdict.outcome, verdict.failed, verdict.notes) == ("inconclusive", True, ())
        assert judge(Trials([], selected=9), Thresholds()).gates == (), "nothing was asked"

    def test_a_floor_whose_trials_are_quarantined_is_inconclusive(self) -> None:
        results = [trial("1"), trial("q", domain="retail")]
        floors = Thresholds(min_pass={"airline": 0.5, "retail": 0.5, "telecom": 0.5})
        verdict = judge(Trials(results, quarantined=frozenset({"tau2/retail/q"}), selected=2), floors)
        assert {g.name: g.verdict for g in verdict.gates} == {
            "min_pass[airline]": "pass",
            "min_pass[retail]": "inconclusive",
        }
        assert verdict.gates[1].sentence == "nothing to judge: 1 trial of it was skipped or is quarantined"
        assert verdict.notes == ("not judged, because there is no trial of it: min_pass[telecom]",)


def test_errors_that_no_report_shows_fail_a_test_case_of_their_own() -> None:
    results = [*run(3), trial("e", status="infrastructure_error")]
    verdict = judge(Trials(results, hidden=("tau2/airline/e#0",)), Thresholds(min_pass={"": 0.5}, inconclusive="pass"))
    gate = verdict.gates[-1]
    assert (gate.name, gate.verdict, verdict.fails(gate)) == ("errors", "inconclusive", True)
    assert gate.sentence == "1 trial could not be evaluated, and its test does not say so (xfail?): tau2/airline/e#0"


def test_a_verdict_is_json() -> None:
    verdict = judge(Trials(run(12, 8)), Thresholds(min_pass={"": 0.5}), Baseline.of(run(20)))
    stored = StoredVerdict.of(verdict, "run", Trials(run(12, 8)))
    data = json.loads(json.dumps(dataclasses.asdict(stored)))
    assert (data["verdict"], data["failed"]) == ("regressed", True)
    assert [(g["name"], g["failed"]) for g in data["gates"]] == [("min_pass", False), ("baseline", True)]
    assert data["comparison"]["domains"][0]["name"] == "tau2/airline"
    assert len(data["comparison"]["tasks"]) == 20


def test_pass_hat_k_that_was_decided_early_says_what_cannot_happen_any_more() -> None:
    trials = [trial("a"), trial("a", 1)]
    for decision, ends in (
        (Decision("pass", 2, 8), "cannot fall below 0.5"),
        (Decision("failed", 2, 8), "cannot reach 0.5"),
    ):
        gates = judge(Trials(trials, decided={"min_pass_k[2]": decision}), Thresholds(min_pass_k={2: 0.5})).gates
        gate = next(g for g in gates if g.name == "min_pass_k[2]")
        assert (gate.verdict, gate.decided_after, bool(gate.word)) == (
            decision.verdict,
            2,
            decision.verdict == "failed",
        )
        assert ends in gate.sentence


def test_one_agent_is_compared_with_its_own_baseline_and_with_no_other() -> None:
    results = [dataclasses.replace(t, key=dataclasses.replace(t.key, agent="a")) for t in run(40)]
    named = judge_agents(Trials(results), Thresholds(max_drop=0.1), ["a"], {"a": Baseline.of(results)})
    assert [(g.name, g.verdict) for g in named.gates] == [("baseline", "pass")]


def test_several_agents_have_gates_of_their_own_and_the_run_its_cost() -> None:
    results = [
        dataclasses.replace(t, key=dataclasses.replace(t.key, agent=agent), agent_usage=Usage(cost_usd=0.1))
        for agent, of_agent in (("a", run(40)), ("b", run(10, 30)))
        for t in of_agent
    ]
    limits = Thresholds(min_pass={"": 0.9}, max_cost=9.0, max_drop=0.1)
    assert [(g.name, g.verdict) for g in judge_agents(Trials(results), limits, ["a", "b"], {}).gates] == [
        ("max_cost", "pass"), ("min_pass:a", "pass"), ("min_pass:b", "failed"), ("compare:b", "regressed"),
    ]  # fmt: skip
