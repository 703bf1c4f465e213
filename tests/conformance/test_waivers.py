import datetime
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from one_test import in_one_test

from pytest_a2a_bench.conformance import waivers
from pytest_a2a_bench.conformance.finding import CheckOutcome, CheckResult, Finding, Requirement
from pytest_a2a_bench.conformance.report import Status, judge, removable
from pytest_a2a_bench.conformance.waivers import Waiver, read_waivers, waiver_of
from pytest_a2a_bench.errors import ConfigurationError

TODAY = datetime.date(2026, 11, 21)
SEND = Requirement("SEND-003", "send", "1.0.1 §3.1.1", "MUST", "contextId comes back")


def result(outcome: CheckOutcome, binding: str = "JSONRPC", requirement: Requirement = SEND) -> CheckResult:
    found = (Finding(requirement.id, "error", "no contextId"),) if outcome in ("failed", "warned") else ()
    return CheckResult(requirement, binding, outcome, found)


def status(outcome: CheckOutcome, *waivers: Waiver, strict: bool = False) -> Status:
    (judgement,) = judge([result(outcome)], waivers=waivers, strict=strict, today=TODAY)
    return judgement.status


def test_a_file_with_every_key_and_one_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "waivers.toml"
    path.write_text(
        '[[waiver]]\nid = "SEND-003"\nreason = "the gateway"\nexpires = 2027-01-31\nbinding = "GRPC"\nversion = "1.0"\n'
        '[[waiver]]\nid = "CARD-004"\nreason = " later "\nexpires = "2027-02-01"\n'
    )
    first, second = read_waivers(path)
    assert first == Waiver("SEND-003", "the gateway", datetime.date(2027, 1, 31), "GRPC", "1.0")
    assert second == Waiver("CARD-004", "later", datetime.date(2027, 2, 1))
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_waivers(tmp_path / "none.toml")


def parse_waivers(text: str, known: Iterable[str] | None = None) -> tuple[Waiver, ...]:
    return waivers._FILE.parse(text, "w.toml", lambda found: waivers._problems(found, known or waivers._catalogue()))


def test_a_bad_file_names_everything_that_is_wrong() -> None:
    text = """
    title = "ours"
    [[waiver]]
    id = "SEND-999"
    reason = ""
    [[waiver]]
    reason = "x"
    expires = "soon"
    binding = "SOAP"
    version = 1.0
    until = 3
    """
    with pytest.raises(ConfigurationError) as caught:
        parse_waivers(text)
    message = str(caught.value)
    for part in (
        "waivers w.toml: unknown key 'title'",
        "waiver 1: reason = '': it should have at least 1 character",
        "waiver 2: id is missing",
        "waiver 2: expires = 'soon': it should be a valid date",
        "waiver 2: version = 1.0: it should be a valid string",
        "waiver 2: unknown key 'until'",
    ):
        assert part in message


@in_one_test(
    ("text", "complaint"),
    [
        ("waiver = 3", "write [[waiver]]"),
        ("waiver = [3]", "is not a table"),
        ("[[waiver]", "not TOML"),
        ('[[waiver]]\nid="SEND-999"\nreason="a"', "id 'SEND-999' is no requirement"),
        ('[[waiver]]\nid="SEND-003"\nreason="a"\nbinding="SOAP"', "binding = 'SOAP' is not one of"),
        ('[[waiver]]\nid="SEND-003"\nreason="a"\n[[waiver]]\nid="SEND-003"\nreason="b"', "SEND-003 is waived twice"),
    ],
)
def test_bad_shapes(text: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint.replace("[", r"\[")):
        parse_waivers(text)


@given(st.text())
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        parse_waivers(text, ("A-1",))
    except ConfigurationError as error:
        message = str(error)
    else:
        message = "w.toml"
    assert "w.toml" in message


def test_what_becomes_of_an_outcome_that_is_waived() -> None:
    last_day = Waiver("SEND-003", "known", TODAY)
    over = Waiver("SEND-003", "known", TODAY - datetime.timedelta(days=1))
    assert status("failed") == "failed"
    assert status("failed", last_day) == "waived"
    assert status("failed", over) == "failed"
    assert status("warned", over) == "failed"
    assert status("failed", Waiver("SEND-004", "other")) == "failed"

    # In a strict run a warning is a failure.
    assert status("warned") == "warned"
    assert status("warned", strict=True) == "failed"
    assert status("warned", Waiver("SEND-003", "known"), strict=True) == "waived"

    # An agent that cannot be asked is not excused.
    assert status("error", Waiver("SEND-003", "known")) == "error"
    assert status("skipped", Waiver("SEND-003", "known")) == "skipped"


def test_the_most_exact_waiver_counts() -> None:
    wide, narrow = Waiver("SEND-003", "wide"), Waiver("SEND-003", "narrow", binding="JSONRPC")
    assert waiver_of(result("failed"), (wide, narrow)) == narrow
    assert waiver_of(result("failed", "GRPC"), (wide, narrow)) == wide
    assert waiver_of(result("failed", "GRPC"), (narrow, Waiver("SEND-003", "old", version="0.3"))) is None


def test_a_waiver_is_removable_once_all_that_it_covers_passes() -> None:
    wide, narrow, idle = Waiver("SEND-003", "w"), Waiver("SEND-003", "n", binding="GRPC"), Waiver("CARD-004", "i")
    waivers = (wide, narrow, idle)
    judged = judge([result("failed"), result("passed", "GRPC"), result("skipped", "HTTP+JSON")], waivers=waivers)
    assert removable(waivers, judged) == [narrow]
