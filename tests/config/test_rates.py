"""How the gates' options and the quarantine file are read."""

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from one_test import in_one_test

from pytest_a2a_bench.config import rates as o
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model import Reward, TrialKey, TrialResult
from pytest_a2a_bench.results.gates import terms


@in_one_test(
    ("read", "text", "value"),
    [
        (o.read_rates, "0.6", {"": 0.6}),
        (o.read_rates, "0", {"": 0.0}),
        (o.read_rates, " 0.6, airline = 0.7 ,\n tau2/retail=.5", {"": 0.6, "airline": 0.7, "tau2/retail": 0.5}),
        (o.read_rates, "off", {}),
        (o.read_pass_k, "4=0.3", {"4": 0.3}),
        (o.read_pass_k, "2=0.5,4=1", {"2": 0.5, "4": 1.0}),
        (o.read_latencies, "p95=10", {"95": 10.0}),
        (o.read_latencies, "p50=2,p99.9=20.5", {"50": 2.0, "99.9": 20.5}),
        (o.read_metrics, "leak=0,over_refusal=5%", {"leak": 0.0, "over_refusal": 0.05}),
        (o.read_metrics, "leak=0!, rougeL=0.5?", {"leak!": 0.0, "rougeL?": 0.5}),
        (o.read_metrics, "none", {}),
        (o.read_drop, "0.05", 0.05),
        (o.read_dollars, "$2.50", 2.5),
        (o.read_dollars, "0", 0.0),
        (o.read_errors, "3", 3),
        (o.read_errors, "0.05", 0.05),
        (o.read_errors, "5%", 0.05),
    ],
)
def test_good_values(read: Callable[[str], Any], text: str, value: Any) -> None:
    found = read(text)
    assert found == value
    assert type(found) is type(value)


@in_one_test(
    ("read", "text"),
    [
        *((o.read_rates, text) for text in ("", ",", "60", "-0.1", "nan", "x", "=0.5", "a=", "0.5,0.6")),
        *((o.read_rates, text) for text in ("a=.1,a=.2", "a=.1!,a=.2", "!", "0.5!!")),
        *((o.read_pass_k, text) for text in ("0.5", "0=0.5", "-1=0.5", "4=2", "4=0.1,4=0.2", "k=0.1")),
        *((o.read_latencies, text) for text in ("95=1", "p101=1", "p95=0", "p95", "p95=inf")),
        *((o.read_metrics, text) for text in ("0.1", "leak", "leak=2", "leak=-1", "a b=0", "leak=0,leak=0!", "leak=%")),
        *((o.read_drop, text) for text in ("0", "-0.1", "1.1", "x")),
        *((o.read_dollars, text) for text in ("-1", "x", "inf")),
        *((o.read_errors, text) for text in ("-1", "2.5", "x", "120%")),
    ],
)
def test_wrong_values_say_what_is_valid(read: Callable[[str], Any], text: str) -> None:
    with pytest.raises(ValueError, match=r"is not|is given twice|is empty|names nothing|no number of trials"):
        read(text)


GOOD = """
[[quarantine]]
task = "tau2/airline/1[25]"
reason = " flaky "
expires = 2027-01-31
[[quarantine]]
task = "tau2/telecom/[mms]x[PERSONA:Hard]"
reason = "hard"
expires = "2027-02-01"
"""


def test_a_quarantine_file_and_one_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "q.toml"
    path.write_text(GOOD)
    entries = terms.QUARANTINE_FILE.read(path)
    day = datetime.date(2027, 1, 31)
    assert entries[0] == terms.Quarantined("tau2/airline/1[25]", "flaky", day)
    assert terms.entry_for("tau2/airline/12", entries, day) == entries[0]
    assert terms.entry_for("tau2/airline/13", entries, day) is None
    assert terms.entry_for("tau2/airline/12", entries, day + datetime.timedelta(1)) is None
    assert terms.entry_for("tau2/telecom/[mms]x[PERSONA:Hard]", entries, day) == entries[1], "ids hold brackets"
    with pytest.raises(ConfigurationError) as refused:
        terms.QUARANTINE_FILE.read(tmp_path / "gone.toml")
    assert str(refused.value) == f"quarantine {tmp_path / 'gone.toml'}: cannot be read: No such file or directory"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x = [", "not TOML"),
        ("other = 1", "unknown key 'other'"),
        ("quarantine = 1", "not an array of tables"),
        ("[[quarantine]]\nreason='r'\nexpires=2027-01-01", "quarantine 1: task is missing"),
        ("[[quarantine]]\ntask='t'\nreason=' '\nexpires=2027-01-01", "quarantine 1: reason = ' ': it should have at"),
        ("[[quarantine]]\ntask='t'\nreason='r'", "quarantine 1: expires is missing"),
        ("[[quarantine]]\ntask='t'\nreason='r'\nexpires='soon'", "quarantine 1: expires = 'soon': it should be a"),
        ("[[quarantine]]\ntask='t'\nreason='r'\nexpires=2027-01-01\nuntil=1", "unknown key 'until'"),
    ],
)
def test_problems_of_a_quarantine_file_are_reported(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "q.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        terms.QUARANTINE_FILE.read(path)
    assert complaint in str(caught.value)


def test_the_outcome_of_each_quarantine_entry_is_reported() -> None:
    entries = [
        terms.Quarantined(f"desk/{task}", "x", datetime.date.fromisoformat(end))
        for task, end in {
            "front/ok-a": "2020-01-31",
            "front/*-b": "2020-01-31",
            "front/ok-[b]": "2999-01-31",
            "front/ok-c": "2999-01-31",
            "front/ok-z": "2999-01-31",
            "back/ok-z": "2999-01-31",
            "b*/ok-z": "2999-01-31",
        }.items()
    ] + [terms.Quarantined("front/ok-a", "x", datetime.date(2999, 1, 31))]
    held = [("ok-a", 1.0), ("ok-b", 1.0), ("ok-c", 0.0)]
    results = [TrialResult(TrialKey("desk", "front", t), "evaluated", reward_info=Reward(r)) for t, r in held]
    said = list(terms.describe_quarantine(entries, results, {"desk", "desk/front", "desk/back"}))
    assert said == [
        "the quarantine of desk/front/ok-a ended on 2020-01-31: it counts again",
        "the quarantine of desk/front/*-b ended on 2020-01-31: another entry still covers it",
        "quarantined, and its trial succeeded: desk/front/ok-[b] (x)",
        "the quarantine of desk/front/ok-z matches no trial of this run",
        "the quarantine of front/ok-a can match no trial: keys have suite and domain, such as desk/front/ok-a",
    ]


def test_an_entry_for_a_task_holds_for_its_labels_and_one_for_a_label_for_that_alone() -> None:
    ends = datetime.date(2999, 1, 31)
    of_all, of_one = (terms.Quarantined(f"desk/front/{task}", "x", ends) for task in ("a", "b@mine"))
    plain, labelled = TrialKey("desk", "front", "a"), TrialKey("desk", "front", "a", label="mine")
    assert terms.quarantine_of(plain, [of_all]) == terms.quarantine_of(labelled, [of_all]) == of_all
    assert terms.quarantine_of(TrialKey("desk", "front", "b"), [of_one]) is None
    assert terms.covers(of_all, labelled), "the entry is not reported as one that matches no trial"
    assert terms.quarantine_of(TrialKey("desk", "front", "b", label="mine"), [of_one]) == of_one
