"""CRMArena's options: what each value means, and which do not go together."""

import dataclasses
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import resolved_settings
from one_test import in_one_test

from pytest_a2a_bench import dialects
from pytest_a2a_bench.benchmarks.crmarena import actions, prompt
from pytest_a2a_bench.benchmarks.crmarena.actions import TOOLS
from pytest_a2a_bench.benchmarks.crmarena.options import CrmOptions
from pytest_a2a_bench.benchmarks.crmarena.org import OrgError, QueryResult, read_published
from pytest_a2a_bench.benchmarks.crmarena.score import score
from pytest_a2a_bench.benchmarks.crmarena.tasks import CATEGORIES, CrmTask
from pytest_a2a_bench.model import Briefing, Part, ToolCall, UserSaid

resolved = partial(resolved_settings.resolved, started="sub")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "sub" / "data").mkdir(parents=True)
    (tmp_path / "data").mkdir()
    return tmp_path


def test_every_spelling_reaches_the_settings(root: Path) -> None:
    found = resolved(
        root,
        {"a2a_crm_scoring": "fixed", "a2a_crm_aided": "on", "a2a_crm_threshold": "0.75"},
        environ={"A2A_CRM_DRIFT": "high", "A2A_CRM_SCORING": "compat"},
        table={"crm-rot": True, "crm-max-turns": 7, "crm-max-user-turns": "2"},
    )
    assert not found.problems
    s = found.settings
    crm = CrmOptions.of(s)
    assert (crm.scoring, crm.aided, crm.threshold) == ("fixed", True, 0.75)
    assert (crm.drift, crm.rot, crm.max_turns, crm.max_user_turns) == ("high", True, 7, 2)
    found = resolved(root, {"a2a_crm_drift": "none"}, table={"crm-drift": "low"})
    assert CrmOptions.of(found.settings).drift is None


@in_one_test(
    ("source", "name", "expected"),
    [("options", "a2a_crm_data", "sub/data"), ("environ", "A2A_CRM_DATA", "sub/data"), ("table", "crm-data", "data")],
)
def test_where_the_data_is(root: Path, source: str, name: str, expected: str) -> None:
    given: dict[str, Any] = {source: {name: "data"}}
    found = resolved(root, **given)
    assert not found.problems
    assert CrmOptions.of(found.settings).data == str(root / expected)


@in_one_test(
    ("values", "problem"),
    [
        ({"a2a_crm_data": "nowhere"}, "nowhere is not a directory"),
        ({"a2a_crm_max_turns": "0"}, "--a2a-crm-max-turns: '0' is not a whole number of at least 1"),
        ({"a2a_crm_threshold": "0"}, "--a2a-crm-threshold: '0' is not a number above 0 and up to 1"),
        ({"a2a_crm_threshold": "nan"}, "'nan' is not a number above 0 and up to 1"),
        ({"a2a_crm_org": "cloud"}, "'cloud' is not one of local, salesforce"),
        ({"a2a_crm_org": "salesforce"}, "has rows and no tasks: add --a2a-crm-data"),
        ({"a2a_crm_org": "salesforce", "a2a_crm_data": "data", "a2a_crm_drift": "low"}, "of a local org only"),
    ],
)
def test_wrong_values(root: Path, values: dict[str, str], problem: str) -> None:
    (found,) = resolved(root, values).problems
    assert problem in found


@in_one_test(
    ("given", "checkout", "strategy", "privacy"),
    [
        ("CRMArena", "CRMArena", "react", False),
        ("~/up:act", str(Path("~/up").expanduser()), "act", False),
        ("/up:react+privacy", "/up", "react", True),
        ("C:tool_call_flex", "C", "tool_call_flex", False),
    ],
)
def test_checkout_and_agent_are_one_option(root: Path, given: str, checkout: str, strategy: str, privacy: bool) -> None:
    crm = CrmOptions.of(resolved(root, {"a2a_crm_official": given}).settings)
    assert (crm.checkout, crm.strategy, crm.privacy_prompt) == (str(root / "sub" / checkout), strategy, privacy)
    assert (crm.profile, crm.scoring) == ("official", "compat")


# What an agent is told: the task message and the observations.


SCHEMA = read_published(
    [
        {"object": "Case", "fields": {"Id": "its id", "Status": "where it stands"}},
        {"object": "Thing__c", "fields": {"Id": ""}},
    ]
)


def task(category: str = "handle_time", **more: object) -> CrmTask:
    made = CrmTask("handle_time-01", category, " Who was quickest? ", CATEGORIES[category].metric, ("005GOLD",))
    fields = {name: getattr(made, name) for name in made.__slots__}
    return CrmTask(
        **{**fields, "required": "\n   ## Rules\n     - Today: 2021\n   ", "optional": "Q1 ends in March", **more}
    )


def test_the_policy_has_role_org_rules_and_turns_and_no_gold() -> None:
    text = prompt.render_policy(task(), SCHEMA)
    assert "one of the company's own employees" in text
    assert "Case, Thing__c" in text
    assert "Case\n  - Id: its id\n  - Status: where it stands\nThing__c\n  - Id\n" in text
    assert "## Rules\n  - Today: 2021" in text
    assert "You have 20 turns" in text
    assert text.endswith("# What you need to know for this task\n## Rules\n  - Today: 2021")
    assert '{"answer": []} says that there is none' in text
    assert "Q1 ends" not in text
    assert "005GOLD" not in text
    assert "Q1 ends in March" in prompt.render_policy(task(), SCHEMA, aided=True)
    assert "You have 5 turns" in prompt.render_policy(task(), SCHEMA, max_turns=5)
    external = prompt.render_policy(task("knowledge_qa"), SCHEMA)
    assert "a customer of the company" in external
    assert "ask back" in prompt.render_policy(task(interactive=True), SCHEMA)
    assert "What you need to know" not in prompt.render_policy(task(required=" "), SCHEMA)
    briefing = prompt.brief(task(), SCHEMA, domain="mini", aided=True)
    assert briefing.tools == TOOLS
    assert briefing.facts["task_id"] == "handle_time-01"
    assert briefing.facts["optional_context"] == "Q1 ends in March"
    assert "005GOLD" not in repr(briefing)


@in_one_test("category", ["private_customer_information", "confidential_company_knowledge"])
def test_the_message_does_not_say_when_to_refuse(category: str) -> None:
    """Upstream's plain prompt does not either: whether an agent knows by itself is what these tasks are about."""
    text = prompt.render_policy(task(category, answers=()), SCHEMA).lower()
    for word in ("privacy", "confidential", "decline", "refuse"):
        assert word not in text


def result(*records: Mapping[str, object]) -> QueryResult:
    return QueryResult("soql", records, len(records), len(records), 0.0)


def test_observations_read_as_upstreams() -> None:
    kind = {"type": "Case", "url": "/x"}
    one = {"attributes": kind, "Id": "1", "Owner": {"attributes": kind, "Name": None}, "X": None}
    two = {"attributes": kind, "Id": None, "Owner": None, "X": None}
    shown = actions.render_result(result(one, two))
    assert shown == (
        "Salesforce instance output: [{'Id': '1', 'Owner': {'attributes': {'type': 'Case', 'url': '/x'}, "
        "'Name': None}}, "
        "{'Id': None, 'Owner': None}]"
    )
    assert actions.render_result(result()) == "Salesforce instance output: []"
    assert one["X"] is None
    assert "attributes" in one
    many = [{"attributes": {}, "Id": str(n) * 100} for n in range(3000)]
    assert len(actions.render_result(result(*many))) > 1_000_000
    error = OrgError("INVALID_FIELD", "No such column 'X' on entity 'Case'.")
    assert actions.render_error(error) == (
        "Salesforce instance output: INVALID_FIELD: No such column 'X' on entity 'Case'."
    )


@in_one_test("dialect", dialects.names())
def test_every_dialect_shows_the_structured_answer_and_that_respond_speaks_to_the_user(dialect: str) -> None:
    def asked(briefing: Briefing) -> str:
        (part,) = dialects.get(dialect).encode_request(briefing, [UserSaid("Who?")])
        return part.text or json.dumps(part.data)

    briefing = prompt.brief(task(), SCHEMA, domain="mini")
    # Beside the policy, which asks for it in all of them.
    assert '"answer": ["VALUE", ...]' in asked(dataclasses.replace(briefing, policy="")).replace("\\", "")
    if dialect == "crm_entropic":
        return
    message = asked(briefing)
    assert "respond" in message
    assert "answer in plain text" not in message
    assert "respond directly to the user" not in message.lower()
    asks_for_actions = dialect in ("auto", "crm_action", "crm_observation")
    assert ('{"action": "respond", "answer": ["VALUE", ...]}' in message) is asks_for_actions


@in_one_test(
    "said",
    [
        '{"action": "respond", "answer": ["30 days", "60 days"]}',
        '<respond> {"answer": ["30 days", "60 days"]} </respond>',
        '{"task_id": "1", "answer": ["30 days", "60 days"]}',
        '{"name": "respond", "arguments": {"answer": "{\\"answer\\": [\\"30 days\\", \\"60 days\\"]}"}}',
    ],
)
def test_the_structured_answer_is_read_in_every_form(said: str) -> None:
    (call,) = dialects.get("auto").decode_reply([Part.of_text(said)], TOOLS).calls
    free = CrmTask("1", "knowledge_qa", "?", "fuzzy_match", ("30 days 60 days",))
    assert score(free, str(call.arguments["answer"]), scoring="fixed").value == 1.0


def test_with_a_colleague_auto_shows_calls_which_all_three_tools_can_be_written_as() -> None:
    briefing = prompt.with_colleagues(prompt.brief(task(), SCHEMA), ["ann"], 2)
    (part,) = dialects.get("auto").encode_request(briefing, [UserSaid("Who?")])
    assert '{"tool_call": {"name"' in part.text
    assert "To speak to the user, call the tool respond: plain text reaches nobody." in part.text


@in_one_test(
    ("written", "read"),
    [
        ('{"answer": ["A", "B"]}', "A, B"),
        ('```json\n{"answer": []}\n```', "None"),
        ('{"answer": null}', "None"),
        ('{"answer": "A"}', "A"),
        ('{"answer": ["A"], "why": "x"}', '{"answer": ["A"], "why": "x"}'),
        ('{"answer": ["A"]} I think', '{"answer": ["A"]} I think'),
        ("{A}", "{A}"),
        ("A", "A"),
    ],
)
def test_a_structured_answer_is_what_it_holds(written: str, read: str) -> None:
    assert actions.read_action(ToolCall("respond", {"answer": written})).text == read
