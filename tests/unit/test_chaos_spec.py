from __future__ import annotations

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_a2a_bench.chaos.calls import Call
from pytest_a2a_bench.chaos.draws import RESTART, Draws, draw
from pytest_a2a_bench.chaos.spec import CHOICES, FAULTS, SETTINGS, ChaosSpec, describe, parse_chaos
from pytest_a2a_bench.errors import ConfigurationError

SECONDS = st.floats(0, 1e6)
RATES = st.dictionaries(st.sampled_from(sorted(FAULTS)), st.floats(0, 1), min_size=1, max_size=5).map(
    lambda rates: tuple((name, rate / len(rates)) for name, rate in rates.items())
)
SPECS = st.builds(
    ChaosSpec,
    rates=RATES,
    seed=st.integers(),
    by=st.sampled_from(CHOICES["by"]),
    on=st.sampled_from(CHOICES["on"]),
    hang=SECONDS,
    dribble_delay=SECONDS,
    retry_after=st.integers(0, 10**6),
    refuse_for=SECONDS,
    slow_start=SECONDS,
    restart_after=st.integers(0, 10**6),
    restart_pause=SECONDS,
)
SEND = Call("jsonrpc", "SendMessage", "send", "m-1")


@given(SPECS)
@settings(max_examples=examples(200))
def test_a_spec_is_read_back_as_it_was_written(spec: ChaosSpec) -> None:
    assert parse_chaos(str(spec)) == spec


@given(st.lists(st.sampled_from(["reset", "503", "seed", "hang", "=", ",", "0.5", "1", "-", "nan", " "])).map("".join))
@settings(max_examples=examples(300))
def test_what_is_no_spec_is_one_line(text: str) -> None:
    try:
        spec = parse_chaos(text)
    except ConfigurationError as error:
        told = str(error)
    else:
        told = f"probabilities of {sum(rate for _, rate in spec.rates)}"
        assert parse_chaos(str(spec) or text) == spec
    assert told.startswith((f"chaos {text!r}: ", "probabilities of 0", "probabilities of 1"))
    assert "\n" not in told


def test_the_example_of_the_documentation_is_read() -> None:
    spec = parse_chaos("reset=0.05, after-delivery=0.02,503=0.05,dribble=0.01,seed=7")

    assert spec.rates == (("reset", 0.05), ("after-delivery", 0.02), ("503", 0.05), ("dribble", 0.01))
    assert spec.seed == 7


def test_all_problems_are_told_together() -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_chaos("rest=0.1,503=2,hang=soon,seed=1.5,on=cards,reset=0.7,reset=0.1,dribble=0.6,retry-after,truncate=")

    assert str(caught.value).split(": ", 1)[1].split("; ") == [
        "'rest' is no fault and no setting",
        "did you mean 'reset'? (a2a-bench chaos --list has all)",
        "503=2 is no probability, a number from 0 to 1",
        "hang=soon must be a number of seconds, 0 or more",
        "seed=1.5 is no whole number",
        "on=cards is unknown",
        "use one of messages, sends, all",
        "reset is given twice",
        "retry-after has no value",
        "write retry-after=1",
        "truncate has no value",
        "write truncate=0.05",
        "the probabilities sum to 1.3",
        "a request has one fault at most, so keep them within 1",
    ]


@pytest.mark.parametrize("text", ["", " , ", ","])
def test_a_spec_of_nothing_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="it asks for nothing"):
        parse_chaos(text)


@pytest.mark.parametrize(
    ("wrong", "near"),
    [("rst", "reset"), ("503-later", "503-late"), ("slowstart", "slow-start"), ("500late", "500-late")],
)
def test_an_unknown_name_is_told_with_the_nearest(wrong: str, near: str) -> None:
    with pytest.raises(ConfigurationError, match=f"did you mean '{near}'"):
        parse_chaos(f"{wrong}=0.1")


def test_the_list_has_every_name() -> None:
    words = set(describe().split())

    assert {*FAULTS, *SETTINGS} <= words


def test_the_same_seed_gives_the_same_faults_and_another_seed_others() -> None:
    def faults(text: str) -> list[str | None]:
        draws = Draws(parse_chaos(text))
        return [draws.next(SEND) for _ in range(200)]

    assert faults("reset=0.3,503=0.3,seed=7") == faults("reset=0.3,503=0.3,seed=7")
    assert faults("reset=0.3,503=0.3,seed=7") != faults("reset=0.3,503=0.3,seed=8")


def test_faults_come_as_often_as_asked() -> None:
    spec = parse_chaos("reset=0.2,503=0.05")
    drawn = [draw(spec, str(number)) for number in range(20_000)]

    # Three standard deviations.
    assert abs(drawn.count("reset") / 20_000 - 0.2) < 0.009
    assert abs(drawn.count("503") / 20_000 - 0.05) < 0.005


def test_by_message_order_changes_nothing() -> None:
    spec = parse_chaos("reset=0.5,by=message")
    calls = [Call("rest", "send", "send", f"m-{number % 10}") for number in range(40)]

    def faults(ordered: list[Call]) -> dict[str, list[str | None]]:
        draws = Draws(spec)
        found: dict[str, list[str | None]] = {}
        for call in ordered:
            found.setdefault(call.message_id or "", []).append(draws.next(call))
        return found

    forth, back = faults(calls), faults(calls[::-1])

    assert forth == back
    # A message that is sent again meets its own fate each time.
    assert any(len(set(fates)) == 2 for fates in forth.values())


def test_every_so_many_requests_the_agent_restarts() -> None:
    draws = Draws(parse_chaos("restart-after=3"))

    assert [draws.next(SEND) for _ in range(6)] == [None, None, RESTART, None, None, RESTART]
