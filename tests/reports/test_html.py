"""The page's text, without a browser."""

import base64
import dataclasses
import hashlib
import json
import re
import zlib
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_trials import made_error, made_trial

from pytest_a2a_bench.conformance.report import CheckRow
from pytest_a2a_bench.model import Turn, Usage, dollars
from pytest_a2a_bench.reports import html
from pytest_a2a_bench.reports.contents import Contents, cautions
from pytest_a2a_bench.reports.html import charts, records, render, sections
from pytest_a2a_bench.reports.html.charts import el
from pytest_a2a_bench.results.baseline import Baseline
from pytest_a2a_bench.results.compare import compare
from pytest_a2a_bench.results.gates.files import StoredVerdict


class Reader(HTMLParser):
    """Collects what a parser of HTML sees: tags with their attributes, and the text of each script and style."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.raw: dict[str, list[str]] = {"script": [], "style": []}
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in self.raw:
            self.raw[tag].append("")

    def handle_data(self, data: str) -> None:
        last = self.tags[-1][0] if self.tags else ""
        if last in self.raw and not self.raw[last][-1]:
            self.raw[last][-1] = data
        self.text += data


def test_the_policy_knows_exactly_the_script_and_the_style_and_nothing_points_outside_or_carries_a_handler() -> None:
    reader = Reader(render(Contents(trials=[made_trial("tau2/airline/1#0")], endpoint="https://agent.example/")))
    policy = next(str(a["content"]) for t, a in reader.tags if a.get("http-equiv") == "Content-Security-Policy")
    own = {"script-src": reader.raw["script"][-1], "style-src": reader.raw["style"][0]}
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    for name, text in own.items():
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[name] == f"'sha256-{digest}'"
    for tag, attributes in reader.tags:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form")
        assert not {"src", "style", "action", "srcdoc"} & set(attributes)
        assert not [name for name in attributes if name.startswith("on")]
        assert (attributes.get("href") or "#").startswith("#")


@given(st.text(max_size=200))
def test_any_text_is_read_back_as_text(text: str) -> None:
    reader = Reader(el("p", text, title=text))
    assert [tag for tag, _ in reader.tags] == ["p"]
    assert reader.text == reader.tags[0][1]["title"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(json_values)
def test_embedded_json_is_the_same_and_cannot_end_its_element(value: Any) -> None:
    text = html.safe_json(value)
    assert json.loads(text) == value
    assert not re.search("[<>&\u2028\u2029]", text)


def test_chunks_hold_every_record_in_order() -> None:
    given = [{"i": i, "text": "x" * 50_000} for i in range(20)]
    chunks = list(html.chunks(given))
    assert len(chunks) > 1
    found = []
    for i, (packed, held) in enumerate(chunks):
        reader = Reader(html.chunk_element(packed, f"chunk-{i}"))
        assert reader.tags == [("script", {"type": "text/plain", "id": f"chunk-{i}"})]
        inside = json.loads(zlib.decompress(base64.b64decode(reader.raw["script"][0])))
        assert len(inside) == held
        found += inside
    assert found == given


def test_a_lone_surrogate_does_not_stop_the_page() -> None:
    page = render(Contents(trials=[made_trial("tau2/airline/1#0", said="a\ud800b")], agent="x\udfff"))
    page.encode("utf-8")


def test_rows_have_reasons_order_and_bounded_texts() -> None:
    assert records.row(made_trial("tau2/airline/1#0", success=False))["w"] == "communicate: the agent says 42"
    assert records.row(made_trial("tau2/airline/1#0"))["w"] == ""
    row = records.row(made_error("tau2/airline/1#0"))
    assert (row["w"], row["s"], row["r"]) == (
        "TransportError: the connection was refused",
        "infrastructure_error",
        None,
    )
    keys = ["tau2/airline/10#0", "tau2/airline/9#1", "tau2/airline/9#0", "tau2/airline/x\u00b2#0", "tau2/airline/#a#0"]
    ordered = sorted(map(made_trial, keys), key=records.order)
    assert [str(t.key).split("/")[-1] for t in ordered] == ["9#0", "9#1", "10#0", "#a#0", "x\u00b2#0"]
    long = made_trial("tau2/airline/1#0", transcript=(Turn("agent", "x" * 30_000),) * (records.TURNS + 5))
    found = records.detail(long)
    assert len(found["turns"]) == records.TURNS
    assert found["left_out"] == 5
    assert found["turns"][0]["text"].endswith("10,000 more characters are in the trial's file")


def test_caveats_of_a_comparison_are_on_the_page() -> None:
    trials = [
        made_trial("tau2/airline/1#0", provenance={"user": "scripted", "tagged": True}),
        made_error("tau2/airline/2#0"),
        made_trial("tau2/airline/3#0", status="skipped", reward_info=None, run_id="run-2"),
    ]
    text = " ".join(cautions(Contents(trials=trials, endpoint="builtin:oracle")))
    for words in (
        "scripted",
        "not leaderboard numbers",
        "--a2a-set tag-trials=on",
        "builtin:oracle",
        "1 of 3 trials ended in an error",
        "1 of 3 trials were skipped",
        "2 runs",
    ):
        assert words in text
    llm = [made_trial("tau2/airline/1#0", provenance={"user": "llm", "user_llm": "m"})]
    assert cautions(Contents(trials=llm, endpoint="http://a/")) == []


def test_an_error_counts_as_not_passed_and_a_skipped_trial_does_not_count() -> None:
    trials = [
        made_trial("tau2/airline/1#0"),
        made_error("tau2/airline/2#0"),
        made_trial("tau2/airline/3#0", status="skipped", reward_info=None),
    ]
    text = Reader(render(Contents(trials=trials))).text
    assert "1 of 2; 95 % interval 9 % to 91 %" in text
    assert "1 / 2" in text
    text = Reader(render(Contents(verdict=StoredVerdict("r", "inconclusive", True, (), ())))).text
    assert "Inconclusive: the run does not pass" in text
    text = Reader(render(Contents(verdict=StoredVerdict("r", "inconclusive", False, (), ())))).text
    assert "Inconclusive: the run passes all the same" in text


@pytest.mark.parametrize("status", ["infrastructure_error", "skipped"])
def test_a_run_in_which_nothing_was_evaluated_has_a_page(status: str) -> None:
    page = render(Contents(trials=[made_trial("tau2/airline/1#0", status=status, reward_info=None, turn_latencies=())]))
    assert "Time of a turn" in page


def test_findings_come_with_what_is_to_be_said_worst_first() -> None:
    rows = [
        CheckRow("A-1", "send", "SHOULD", "1.0", "JSONRPC", "warned"),
        CheckRow("A-2", "send", "MUST", "1.0", "JSONRPC", "failed"),
        CheckRow("A-2", "send", "MUST", "0.3", "JSONRPC", "passed"),
    ]
    text = Reader(render(Contents(checks=rows, explanations={"1.0/A-2[JSONRPC]": "found: nothing"}))).text
    assert text.index("A-2 [JSONRPC] MUST") < text.index("found: nothing") < text.index("A-1 [JSONRPC] SHOULD")
    assert "2 findings" in text
    assert "No conversation took place" not in text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "\u2013"), (0.0061, "6.1 ms"), (0.25, "250 ms"), (0.9996, "1000 ms"), (3.14159, "3.14 s"), (300, "5 min")],
)
def test_seconds(seconds: float | None, text: str) -> None:
    assert charts.seconds(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "-"), (0, "$0.00"), (12.345, "$12.35"), (0.0123, "$0.012"), (0.000012, "$1.2e-05")]
)
def test_dollars(value: float | None, text: str) -> None:
    assert dollars(value) == text


# The comparison with a baseline on the page.


def shown(before: Baseline, after: Baseline) -> str:
    return str(sections.against_baseline(compare(before, after), Contents(baseline_name="baseline.json")))


def test_a_tiny_chance_is_not_shown_as_none() -> None:
    before = Baseline.of([made_trial(f"made/even/{task}#0") for task in range(40)])
    after = Baseline.of([made_trial(f"made/even/{task}#0", success=False) for task in range(40)])
    page = shown(before, after)
    assert "0.000" not in page
    assert "&lt; 0.001" in page
    assert "of each of its ends alone one is 95 % sure" in page


def test_cost_time_and_tokens_of_both_stand_beside_each_other() -> None:
    before, now = (
        dataclasses.replace(made_trial("made/even/1#0"), turn_latencies=(seconds,), agent_usage=Usage(tokens, 7, cost))
        for seconds, tokens, cost in ((0.25, 1_500, 0.02), (0.5, 900, 0.01))
    )
    contents = Contents(trials=[now], beside={str(now.key): before})
    page = str(sections.against_baseline(compare(Baseline.of([before]), Baseline.of([now])), contents))
    table = re.sub(r"\s*<[^>]+>\s*", " ", page[page.index("p50 of a turn") :])
    assert "Before $0.020 250 ms 250 ms 1,500/7 " in " ".join(table.split())
    assert "Now $0.010 500 ms 500 ms 900/7 " in " ".join(table.split())


def test_tasks_that_errored_are_not_said_to_be_in_the_baseline_only() -> None:
    before = Baseline.of([made_trial(f"made/even/{task}#0") for task in range(4)])
    after = Baseline.of([made_trial("made/even/0#0"), *(made_error(f"made/even/{task}#0") for task in (1, 2))])
    page = shown(before, after)
    assert "1 task is only in the baseline." in page
    assert "2 tasks could not be evaluated in one of the runs." in page
