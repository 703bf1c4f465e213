import dataclasses
import datetime
import json

from one_test import in_one_test

from pytest_a2a_bench.conformance import catalogue
from pytest_a2a_bench.conformance.finding import (
    CheckOutcome,
    CheckResult,
    Exchange,
    Finding,
    Level,
    Planned,
    Requirement,
    Severity,
    Vary,
)
from pytest_a2a_bench.conformance.report import CheckRow, Report, Status, _known, compliance, judge, sdk_of
from pytest_a2a_bench.conformance.subject import Subject
from pytest_a2a_bench.conformance.waivers import Waiver
from pytest_a2a_bench.reports import findings
from pytest_a2a_bench.reports.findings import FORMATS, known_lines, render

EVIL = "\x1b[31mred\x1b]0;title\x07 <script>alert(1)</script> ]]> | `x` ``` \u202e \x00 \ufffe"
TODAY = datetime.date(2026, 11, 21)


def requirement(id: str, group: str = "send", level: Level = "MUST", version: str = "1.0") -> Requirement:
    return Requirement(id, group, f"{version}.1 §3.1", level, f"what {id} wants", version)


def exchange(text: str = '{"jsonrpc": "2.0"}') -> Exchange:
    return Exchange(
        "JSONRPC",
        "SendMessage",
        "http://127.0.0.1:9/rpc",
        "POST",
        {"content-type": "application/json", "A2A-Version": "1.0"},
        '{"method": "SendMessage"}',
        200,
        {"content-type": "application/json"},
        text,
        seconds=0.012,
    )


def result(
    outcome: CheckOutcome, id: str = "SEND-003", binding: str = "JSONRPC", found: str = "no contextId", **more: str
) -> CheckResult:
    entry = requirement(id, **more)  # type: ignore[arg-type]
    severity: Severity = "warning" if outcome == "warned" else "error"
    findings = (
        (Finding(id, severity, found, "one", entry.spec, "/result/task", "set it", (exchange(found),)),)
        if outcome in ("failed", "warned")
        else ()
    )
    return CheckResult(entry, binding, outcome, findings, "no prompt" if outcome == "skipped" else "", 0.25)


def report(*results: CheckResult, waivers: tuple[Waiver, ...] = (), agent: str = "Echo 1") -> Report:
    rows = tuple(judge(results, waivers=waivers, today=TODAY))
    return Report("http://127.0.0.1:9", rows, agent, ("1.0 JSONRPC",), waivers)


MIXED = report(
    result("passed", "SEND-001"),
    result("failed"),
    result("warned", "SEND-004", level="SHOULD"),
    result("skipped", "STREAM-001", group="streaming"),
    result("failed", "GET-001", group="get-task"),
    result("passed", "GET-002", group="get-task", binding="GRPC"),
    CheckResult(requirement("CARD-001", "card"), "card", "error", (), "connection refused"),
    waivers=(Waiver("GET-001", "until 2.4"), Waiver("GET-002", "long gone")),
)


def test_text_shows_the_requirement_the_wire_and_the_command() -> None:
    text = render(MIXED, "text")
    for part in (
        "conformance of http://127.0.0.1:9 (Echo 1), 1.0 JSONRPC",
        "FAILED SEND-003 [JSONRPC] MUST (1.0.1 §3.1): what SEND-003 wants",
        "  error: no contextId",
        "  expected: one",
        "  at: /result/task",
        "  fix: set it",
        "  > POST http://127.0.0.1:9/rpc",
        "  > A2A-Version: 1.0",
        '  > {"method": "SendMessage"}',
        "  < HTTP 200 (12 ms)",
        "repeat: curl",
        "WARNED SEND-004",
        "ERROR CARD-001",
        "  reason: connection refused",
        "waived: GET-001 [JSONRPC]: until 2.4",
        "removable waiver: GET-002",
        "  1 x no prompt (STREAM-001)",
        "1 failed, 1 error, 1 warned, 1 waived, 2 passed, 1 skipped",
    ):
        assert part in text
    assert "FAILED GET-001" not in text


def test_the_matrix_has_groups_and_bindings_and_keeps_versions_apart() -> None:
    assert findings.matrix_cells(MIXED.rows) == [
        ["group", "card", "JSONRPC", "GRPC"],
        ["send", "", "1/3 1 failed 1 warned", ""],
        ["streaming", "", "skipped", ""],
        ["get-task", "", "0/1 1 waived", "1/1"],
        ["card", "0/1 1 error", "", ""],
    ]
    rows = report(result("passed"), result("failed", version="0.3")).rows
    assert [row[0] for row in findings.matrix_cells(rows)] == ["group", "send (1.0)", "send (0.3)"]
    assert [(c.version, c.verdict) for c in compliance(rows)] == [
        ("1.0", "fully conformant"),
        ("0.3", "not conformant"),
    ]


STRICT = dataclasses.replace(result("warned", level="SHOULD"), outcome="failed")


@in_one_test(
    ("results", "verdict"),
    [
        ([result("passed")], "fully conformant: MUST 1/1"),
        ([result("passed"), result("warned", level="SHOULD")], "conformant: MUST 1/1, SHOULD 0/1"),
        ([result("warned")], "conformant: MUST 0/1"),
        # A recommendation fails a strict run, and breaks no MUST; an internal error does, whichever check meets it.
        ([result("passed"), STRICT], "conformant: MUST 1/1, SHOULD 0/1"),
        ([STRICT], "not conformant: SHOULD 0/1"),
        ([result("passed"), result("failed", level="SHOULD")], "not conformant: MUST 1/2"),
        ([result("passed"), result("skipped")], "fully conformant: MUST 1/1; 1 skipped"),
        ([result("failed")], "not conformant: MUST 0/1"),
        ([result("skipped")], "not judged: nothing was checked; 1 skipped"),
        ([result("error")], "not judged: MUST 0/1"),
        ([result("error"), result("passed")], "not judged completely: MUST 1/2"),
        ([result("error"), result("failed")], "not conformant: MUST 0/2"),
        ([result("error", level="SHOULD"), result("passed")], "not judged completely: MUST 1/1, SHOULD 0/1"),
        ([result("passed", level="SHOULD")], "not judged: SHOULD 1/1"),
        ([result("passed", binding="card")], "fully conformant in its card alone: MUST 1/1"),
        ([result("passed", binding="card"), result("passed")], "fully conformant: MUST 2/2"),
        ([result("failed", binding="card")], "not conformant: MUST 0/1"),
    ],
)
def test_compliance_levels(results: list[CheckResult], verdict: str) -> None:
    (level,) = compliance(report(*results).rows)
    assert level.text == verdict


def test_a_selection_is_said_to_be_one() -> None:
    rows = report(result("passed"), result("failed", version="0.3")).rows
    made = [Planned(requirement("SEND-003", version=version), "JSONRPC") for version in ("1.0", "0.3")]
    further = [Planned(requirement(id), "JSONRPC") for id in ("SEND-001", "SEND-002")]
    old = Planned(requirement("V03-SEND-001", version="0.3"), "JSONRPC")
    texts = [level.text for level in compliance(rows, [*made, *further, old])]
    assert texts == [
        "fully conformant in what was chosen: MUST 1/1; 2 not chosen",
        "not conformant: MUST 0/1; 1 not chosen",
    ]
    assert compliance(rows, made)[0].text == "fully conformant: MUST 1/1"


def test_a_run_that_ended_early_vouches_for_nothing() -> None:
    rows = report(result("passed")).rows
    planned = [Planned(requirement(id), "JSONRPC") for id in ("SEND-003", "SEND-001", "SEND-002")]
    (level,) = compliance(rows, planned, chosen=planned[:2])
    wanted = "not judged completely: MUST 1/1; 1 not chosen; 1 not made, because the run ended early"
    assert level.text == wanted
    assert compliance(rows, planned, chosen=planned[:1])[0].verdict == "fully conformant"


def test_a_profile_says_how_much_needs_a_wider_one() -> None:
    # The first holds in further places.
    varied = dataclasses.replace(requirement("SEND-003"), vary=Vary(states=("failed",)))
    planned = [Planned(entry, "JSONRPC") for entry in (varied, requirement("SEND-005"))]
    planned.append(Planned(dataclasses.replace(requirement("SEND-016"), profile="full"), "JSONRPC"))
    rows = report(result("passed", "SEND-003"), result("passed", "SEND-005")).rows
    (level,) = compliance(rows, planned, "standard")
    wanted = "MUST 2/2; 2 requirements judged; 2 need --a2a-conformance-profile full to be judged wholly"
    assert level.text == f"fully conformant in what was judged: {wanted}"
    (one,) = compliance(rows[:1], planned[::2], "standard")
    assert "; 1 requirement judged; 2 need --a2a" in one.text
    assert compliance(rows, planned[:2], "full")[0].text == "fully conformant: MUST 2/2"


def test_a_waiver_hides_a_failure_but_does_not_make_an_agent_conformant() -> None:
    (level,) = compliance(report(result("failed"), waivers=(Waiver("SEND-003", "x"),)).rows)
    assert level.text == "not conformant: MUST 0/1; 1 waived"


def test_json_can_be_read_again() -> None:
    data = json.loads(render(MIXED, "json"))
    assert data["counts"] == {"failed": 1, "error": 1, "warned": 1, "waived": 1, "passed": 2, "skipped": 1}
    assert data["removable_waivers"] == ["GET-002"]
    failed = next(r for r in data["results"] if r["status"] == "failed")
    assert failed["id"] == "SEND-003"
    assert failed["findings"][0]["exchanges"][0]["status"] == 200
    assert len(data["results"]) == 7


def test_sarif_has_rules_results_and_suppressions() -> None:
    data = json.loads(render(MIXED, "sarif"))
    (run,) = data["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    results = {r["ruleId"]: r for r in run["results"]}
    assert data["version"] == "2.1.0"
    assert sorted(rules) == ["CARD-001", "GET-001", "SEND-003", "SEND-004"]
    assert all(rules[r["ruleIndex"]] == r["ruleId"] for r in run["results"])
    assert {id: r["level"] for id, r in results.items()} == {
        "SEND-003": "error",
        "SEND-004": "warning",
        "GET-001": "error",
        "CARD-001": "error",
    }
    assert results["GET-001"]["suppressions"][0]["justification"] == "until 2.4"
    assert "suppressions" not in results["SEND-003"]
    assert "curl" in results["SEND-003"]["message"]["text"]


def test_sarif_fingerprints_outlive_what_an_agent_says() -> None:
    def fingerprint(found: str, binding: str = "JSONRPC") -> str:
        data = json.loads(render(report(result("failed", found=found, binding=binding)), "sarif"))
        return str(data["runs"][0]["results"][0]["partialFingerprints"])

    assert fingerprint("id 1") == fingerprint("id 2")
    assert fingerprint("id 1") != fingerprint("id 1", "GRPC")


def test_markdown_folds_findings_and_fences_what_agents_say() -> None:
    text = render(report(result("failed", found="a ```` b\n# not a title")), "markdown")
    assert "- **A2A 1.0**: not conformant: MUST 0/1" in text
    assert "| send | 0/1 1 failed |" in text
    assert "`````text" in text
    assert "\n# not a title" not in text


@in_one_test("format", FORMATS)
def test_nothing_that_an_agent_says_reaches_a_terminal_raw(format: str) -> None:
    told = result("failed", found=EVIL)
    told = dataclasses.replace(told, findings=(dataclasses.replace(told.findings[0], pointer=f"/{EVIL}"),))
    text = render(report(told, agent=EVIL), format)
    assert not {"\x1b", "\x07", "\x00", "\u202e"} & set(text)
    if format == "markdown":
        assert "<script>" not in text.split("```")[0]


@in_one_test("format", FORMATS)
def test_reports_are_bounded_and_may_be_empty(format: str) -> None:
    assert render(report(), format).endswith("\n")
    big = "x" * 300_000
    finding = Finding("SEND-003", "error", big, exchanges=(exchange(big),) * 50)
    one = CheckResult(requirement("SEND-003"), "JSONRPC", "failed", (finding,) * 50)
    assert len(render(report(one), format)) < (2_000_000 if format == "json" else 300_000)


def test_a_card_gives_a_result_for_each_of_its_requirements() -> None:
    findings = [
        Finding("CARD-002", "error", "x"),
        Finding("CARD-003", "note", "y"),
        Finding("CARD-003", "warning", "z"),
    ]
    results = {r.requirement.id: r for r in Subject("", {}, tuple(findings)).card_results(served=False)}
    assert {r.binding for r in results.values()} == {"card"}
    outcomes = [results[id].outcome for id in ("CARD-004", "CARD-002", "CARD-003", "CARD-013", "SIGN-002")]
    assert outcomes == ["passed", "failed", "warned", "skipped", "skipped"]
    assert results["SIGN-002"].reason == "the card has no signatures"


def test_what_is_shown_of_findings() -> None:
    # An exchange once.
    shared = exchange()
    several = tuple(Finding("SEND-003", "error", f"problem {n}", exchanges=(shared,)) for n in range(3))
    (judgement,) = judge([CheckResult(requirement("SEND-003"), "JSONRPC", "failed", several)])
    assert "\n".join(findings.explain(judgement)).count("repeat:") == 1

    # A line counts those that it does not show.
    failed = result("failed")
    (judged,) = judge([dataclasses.replace(failed, findings=failed.findings * 3)])
    assert ", and 2 more findings (" in findings.headline(judged)

    silent = dataclasses.replace(exchange(), status=None, response="", problem="connection reset")
    assert "< no answer: connection reset" in list(findings.wire_lines(silent))


def test_sarif_says_what_it_left_out() -> None:
    many = result("failed")
    many = dataclasses.replace(many, findings=many.findings * 25)
    (run,) = json.loads(render(report(*[many] * 150), "sarif"))["runs"]
    assert len(run["results"]) == 1000
    (notice,) = run["invocations"][0]["toolExecutionNotifications"]
    assert notice["message"]["text"].startswith(f"{150 * 25 - 1000} more findings were left out")
    (run,) = json.loads(render(report(result("failed")), "sarif"))["runs"]
    assert "toolExecutionNotifications" not in run["invocations"][0]


# -- what an SDK itself makes is recognised by how the agent behaves --


def row(id: str, status: Status) -> CheckRow:
    return CheckRow(id, "validation", "MUST", "1.0", "JSONRPC", status)


def test_an_agent_that_breaks_what_an_sdk_breaks_is_on_that_sdk_even_if_its_option_ends_one_deviation() -> None:
    rows = [row("SEND-009", "warned"), *(row(id, "failed") for id in ("VAL-006", "VAL-010", "VER-004", "MT-001"))]
    sdk = sdk_of([*rows, row("LIST-013", "skipped"), row("VER-001", "passed")])
    assert sdk is not None
    assert sdk.name == "a2a-sdk 1.3.0"
    first, *known = known_lines(rows)
    assert "not yours" in first
    assert [line.split(":")[0].strip() for line in known] == ["SEND-009", "VAL-006", "VAL-010", "VER-004"]
    assert "a2a-python/issues/1204" in known[-1]
    broken = [row(id, "failed") for id in ("VAL-006", "VAL-010", "VER-004")]
    sdk = sdk_of([*broken, row("SEND-009", "passed"), row("PUSH-018", "passed")])
    assert sdk is not None
    assert sdk.name == "a2a-sdk 1.3.0"


def test_a_deviation_of_one_binding_is_known_of_that_binding_alone() -> None:
    others = [row("SEND-009", "warned"), row("VAL-006", "failed")]
    version = row("VER-001", "failed")
    grpc = [*others, dataclasses.replace(version, binding="GRPC")]
    assert known_lines(grpc)[-1] == "  VER-001: it does not read A2A-Version over gRPC"
    assert known_lines([*others, row("VER-004", "failed"), version])[-1].startswith("  VER-004")


def test_one_check_that_is_kept_shows_another_sdk() -> None:
    broken = [row(id, "failed") for id in ("SEND-009", "VAL-006", "VAL-010", "VER-004")]
    assert sdk_of([*broken, row("LIST-013", "passed")]) is None
    assert sdk_of(broken[:2]) is None  # too few to tell
    others = [row(f"MT-00{n}", "failed") for n in range(1, 6)]
    assert sdk_of([*broken, *others]) is None  # who breaks most rules breaks those of every SDK
    assert sdk_of([*broken[:1], *(dataclasses.replace(r, status="explained") for r in broken[1:])]) is None
    assert known_lines([row("VAL-006", "passed")]) == []


def test_every_known_finding_is_of_a_requirement() -> None:
    for sdk in _known():
        assert all(catalogue.requirement(id.partition("[")[0]) for id in sdk.findings)
