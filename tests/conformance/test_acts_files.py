import builtins
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from one_test import in_one_test

from pytest_a2a_bench.conformance.acts.assertions import mismatches, named_mismatches, sentence, stream_mismatches, view
from pytest_a2a_bench.conformance.acts.document import CollectionMatch, ExpectStream, NamedAssertion, OperationStep, Raw
from pytest_a2a_bench.conformance.acts.loader import Case, YamlFile, load_behaviors, load_cases
from pytest_a2a_bench.conformance.acts.suite import LONGEST_WAIT, load_acts
from pytest_a2a_bench.conformance.acts.values import MISSING, Scope, Unresolved, Until, at, every_at
from pytest_a2a_bench.conformance.engine import CHECK_SECONDS, limit_of
from pytest_a2a_bench.errors import ConfigurationError, MissingExtraError

HEAD = 'acts_version: "1.0"\nspec_version: "1.0"\n'
TEST = """
suites:
  - id: mine
    name: Mine
    tests:
      - id: MINE-001
        name: An unknown task
        level: must
        steps:
          - id: get
            operation: get_task
            params: {id: nobody}
            expect_error:
              error_type: TaskNotFoundError
"""
ERROR = "expect_error:\n              error_type: TaskNotFoundError"


def write(path: Path, text: str, name: str = "mine.acts.yaml") -> Path:
    (path / name).write_text(HEAD + text)
    return path / name


def problem(path: Path) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_cases(path)
    return str(caught.value)


def only(path: Path) -> Case:
    (case,) = load_cases(path)
    return case


def first_step(path: Path) -> OperationStep:
    step = only(path).test.steps[0]
    assert isinstance(step, OperationStep)
    return step


def test_a_file_of_yaml_or_json_becomes_cases(tmp_path: Path) -> None:
    case = only(write(tmp_path, TEST))
    assert (case.test.id, case.test.level, case.suite) == ("MINE-001", "must", "mine")
    assert case.where == f"{tmp_path / 'mine.acts.yaml'}:8"
    assert case.test.steps[0].model_dump()["params"] == {"id": "nobody"}

    path = tmp_path / "mine.acts.json"
    path.write_text(
        '{"acts_version": "1.0", "spec_version": "1.0", "suites": [{"id": "a", "name": "a", "tests": [{"id": "A-1", '
        '"name": "a", "level": "may", "steps": [{"id": "s", "operation": "get_agent_card"}]}]}]}'
    )
    assert only(path).test.level == "may"


def test_a_directory_is_read_by_its_master_file_or_whole(tmp_path: Path) -> None:
    write(tmp_path, TEST)
    write(tmp_path, TEST.replace("MINE-001", "OTHER-001"), "other.acts.yaml")
    assert [case.test.id for case in load_cases(tmp_path)] == ["MINE-001", "OTHER-001"]
    write(tmp_path, "variables: {word: outer}\ninclude: [other.acts.yaml, suite.acts.yaml]\n", "suite.acts.yaml")
    case = only(tmp_path)
    assert (case.test.id, case.variables) == ("OTHER-001", {"word": "outer"})


def test_yaml_is_that_of_1_2(tmp_path: Path) -> None:
    path = tmp_path / "values.yaml"
    path.write_text("[no, on, 2025-01-01, 12, 0x10, 1.5, true, null, '1', ~, .5, -3]")
    assert YamlFile(path).content == ["no", "on", "2025-01-01", 12, 16, 1.5, True, None, "1", None, 0.5, -3]


def test_spellings_of_the_first_draft(tmp_path: Path) -> None:
    old = TEST.replace("get_task", "get_push_notification_config").replace("error_type", "code")
    step = first_step(write(tmp_path, old))
    assert step.operation == "get_push_config"
    assert step.expect_error is not None
    assert step.expect_error.error_type == "TaskNotFoundError"
    stray = TEST.replace(ERROR, "expect: {task: {id: x}}")
    expect = first_step(write(tmp_path, stray)).expect
    assert expect is not None
    assert expect.body == {"task": {"id": "x"}}
    refused = stray.replace("{task: {id: x}}", "{status: error, error: {exists: true}}")
    step = first_step(write(tmp_path, refused))
    assert (step.expect, step.expect_error is not None) == (None, True)


def test_of_a_request_by_hand_the_error_is_a_member(tmp_path: Path) -> None:
    raw = TEST.replace(ERROR, "expect: {error: {absent: true}}")
    raw = raw.replace("level: must", "level: must\n        transport: [jsonrpc]")
    raw = raw.replace("operation: get_task", "raw: {method: GET, path: /}").replace("params: {id: nobody}", "")
    (step,) = only(write(tmp_path, raw)).test.steps
    assert step.model_dump()["expect"]["body"] == {"error": {"absent": True}}


@in_one_test(
    ("old", "new", "message"),
    [
        (
            "level: must",
            "level: musst",
            ":9: suites.0.tests.0.level: should be 'must', 'should' or 'may', found 'musst'",
        ),
        (
            "operation: get_task",
            "opration: get_task",
            ":12: suites.0.tests.0.steps.0.opration: is no key of the format",
        ),
        ("        name: An unknown task\n", "", "suites.0.tests.0.name: is missing"),
        ("error_type: Task", "error_type: Tusk", "there is no 'TuskNotFoundError'; there are TaskNotFoundError"),
        ("id: nobody", 'id: "{{send.taskId}}"', "{{send.taskId}}: no step before this one has the id 'send'"),
        ("id: nobody", 'id: "{{get.taskId}}"', "{{get.taskId}}: step 'get' captures response"),
        ("operation: get_task", "operation: get_tsk", "steps.0.operation: there is no 'get_tsk'; there are"),
        ("- id: get\n", "- id: get\n            capture: {a: 'b..c'}\n", "'b..c' is no path"),
        ("- id: get\n", "- id: get\n            repeat: {until: done}\n", "'done' is no condition"),
        ("level: must", "level: must\n        level: may", ':10: it is not YAML: found duplicate key "level"'),
        ("name: Mine", "name: &a [*a]", "suites.0.name: should be a valid string"),
        ('"1.0"\nsuites', '"9.9"\nsuites', "spec_version: should be '1.0', found '9.9'"),
        (ERROR, "expect_error: {code: -32001}", "expect_error.code: there is no -32001; there are TaskNotFoundError,"),
        ("{id: nobody}", "{id: !secret x}", "mine.acts.yaml: it has values that JSON does not have"),
        ("id: MINE-001", "id: ''", "mine.acts.yaml:7: suites.0.tests.0.id: string should match pattern"),
        ("error_type: TaskNotFoundError", "message: {any_of: [{matches: '('}]}", "'(' is no regular expression"),
    ],
)
def test_problems_are_reported_by_file_line_and_key(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = write(tmp_path, TEST)
    path.write_text(path.read_text().replace("\n\nsuites", "\nsuites").replace(old, new, 1))
    text = problem(path)
    assert text.startswith(str(path))
    assert message in text.replace("\n", " ")


def test_all_files_are_reported_at_once(tmp_path: Path) -> None:
    write(tmp_path, TEST.replace("must", "mist"))
    write(tmp_path, TEST, "two.acts.yaml")
    write(tmp_path, TEST, "three.acts.yaml")
    text = problem(tmp_path)
    assert "mine.acts.yaml:10: suites.0.tests.0.level" in text
    assert "the id 'MINE-001' is that of the test in" in text


@in_one_test(
    ("text", "message"),
    [
        ("", "it has neither suites nor include"),
        ("include: [none.acts.yaml]\n", "none.acts.yaml: it cannot be read: No such file"),
        (TEST.split("steps:")[0] + "steps: []\n", "suites.0.tests.0.steps: list should have at least 1 item"),
        (
            TEST.replace("operation: get_task", "raw: {method: GET, path: /x}").replace("params: {id: nobody}", ""),
            "a test of raw steps alone must say its transport",
        ),
    ],
)
def test_rules_beyond_types(tmp_path: Path, text: str, message: str) -> None:
    assert message in problem(write(tmp_path, text))


@pytest.mark.slow
@pytest.mark.parametrize("ours", ["SEND-003", "DECLARED"])
def test_an_id_of_ours_is_refused(tmp_path: Path, ours: str) -> None:
    with pytest.raises(ConfigurationError, match=f"mine.acts.yaml:8: '{ours}': the id is one of this package's own"):
        load_acts(write(tmp_path, TEST.replace("MINE-001", ours)))


HELLO = "message: {role: ROLE_USER, parts: [{text: hi}]}"


@in_one_test(
    ("step", "safe", "rough"),
    [
        (f"operation: send_message, params: {{{HELLO}}}", True, False),
        (f"operation: send_message, params: {{{HELLO}, taskId: '{{{{a.response.task.id}}}}'}}", True, False),
        ("operation: get_task, params: {id: a, historyLength: 1}", True, False),
        ("operation: get_agent_card", True, False),
        (
            f"operation: send_message, params: {{{HELLO}, configuration: "
            "{taskPushNotificationConfig: {url: 'http://127.0.0.1/x'}}}",
            False,
            False,
        ),
        ("operation: list_push_configs, params: {taskId: a}", False, False),
        ("operation: send_message, params: {message: {role: 17}}, expect: {status: 400}", False, True),
        ("operation: list_tasks, params: {pageSize: 5}, expect: {status: 200}", True, False),
        ("operation: get_task, params: {id: a}, expect_error: {}", False, True),
        ("raw: {method: GET, path: /x}", False, True),
    ],
)
def test_steps_that_are_not_for_an_agent_in_production(tmp_path: Path, step: str, safe: bool, rough: bool) -> None:
    first = "- {id: a, operation: send_message, params: {" + HELLO + "}}"
    suite = load_acts(write(tmp_path, TEST.split("- id: get")[0] + first + "\n          - {id: b, " + step + "}\n"))
    (entry,) = suite.requirements
    assert (entry.is_in("safe"), entry.rough) == (safe, rough)


@in_one_test(
    ("raw", "operation"),
    [
        ({"path": "/", "body": {"method": "SendMessage"}}, "SendMessage"),
        ({"path": "/", "body_raw": '{"method": "SendStreamingMessage"}'}, "SendStreamingMessage"),
        ({"path": "/", "body": {"method": "message/send"}}, "SendMessage"),
        ({"path": "/tenant/message:send?x=1", "body": {}}, "SendMessage"),
        ({"path": "/v1/message%3Astream", "body": {"method": "GetTask"}}, "SendStreamingMessage"),
        ({"path": "/", "body": [{"method": "GetTask"}]}, ""),
        ({"path": "/", "body_raw": "{"}, ""),
        ({"path": "/", "body": {"method": "NoSuchMethod"}}, ""),
        ({"path": "/", "body": {"method": "GetTask"}}, "GetTask"),
        ({"path": "/x/tasks/1:cancel"}, "CancelTask"),
        ({"path": "/tasks/1/pushNotificationConfigs"}, "CreateTaskPushNotificationConfig"),
        ({"path": "/extendedAgentCard", "method": "GET"}, ""),
    ],
)
def test_the_operation_of_a_raw_request(raw: dict[str, Any], operation: str) -> None:
    assert Raw(**{"method": "POST", **raw}).operation == operation


@in_one_test(
    ("step", "seconds"),
    [
        ("delay_ms: 0", 0.0),
        ("delay_ms: 3000", 3.0),
        ("repeat: {until: id == x, max_attempts: 4, delay_ms: 500}", 1.5),
        ("repeat: {until: id == x, max_attempts: 4, delay_ms: 500, backoff: linear}", 3.0),
        ("repeat: {until: id == x, max_attempts: 4, delay_ms: 500, backoff: exponential}", 3.5),
        ("repeat: {until: id == x, max_attempts: 99999999999}", LONGEST_WAIT),
        ("repeat: {until: id == x, max_attempts: 0}", 0.0),
    ],
)
def test_a_delay_in_a_test_extends_its_time_limit(tmp_path: Path, step: str, seconds: float) -> None:
    suite = load_acts(write(tmp_path, TEST.replace("operation: get_task", f"operation: get_task\n            {step}")))
    assert limit_of(suite.requirements[0]) == CHECK_SECONDS + seconds
    assert suite.requirements[0].timed is (step != "delay_ms: 0")


def test_behaviors_of_an_agent(tmp_path: Path) -> None:
    path = tmp_path / "sut-behaviors.yaml"
    path.write_text('acts_version: "1.0"\nbehaviors:\n  - prefix: tck-cancel\n    response_type: task\n')
    assert load_behaviors(path) == {"tck-cancel"}
    path.write_text('acts_version: "1.0"\nbehaviors:\n  - perfix: tck-cancel\n')
    with pytest.raises(ConfigurationError, match=r"sut-behaviors.yaml:3: behaviors.0.prefix: is missing"):
        load_behaviors(path)


def test_without_ruamel_the_hint_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("ruamel"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[acts\]'"):
        YamlFile(write(tmp_path, TEST))


def test_aliases_of_aliases_are_bounded(tmp_path: Path) -> None:
    layers = [f"  a{n}: &a{n} [{', '.join(['*a' + str(n - 1)] * 10)}]" for n in range(1, 9)]
    path = write(tmp_path, "metadata:\n  a0: &a0 [x]\n" + "\n".join(layers) + "\n")
    assert "it has more than 300000 values" in problem(path)


@settings(max_examples=60, deadline=None)
@given(st.text(st.sampled_from(string.printable + "ä\u2028"), max_size=200))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.acts.yaml"
    path.write_text(HEAD + text, encoding="utf-8")
    try:
        load_cases(path)
    except ConfigurationError as error:
        assert str(path) in str(error)  # noqa: PT017 - most texts are refused, and some are not


# -- assertions: which values they hold for --


TASK = {"task": {"id": "t", "status": {"state": "TASK_STATE_WORKING"}, "artifacts": [{"parts": [{"text": "a"}, {}]}]}}


def wrong(assertion: Any, value: Any) -> list[str]:
    return [sentence(one) for one in mismatches(assertion, value)]


@in_one_test(
    ("assertion", "value", "expected"),
    [
        ({"task": {"id": {"type": "string"}, "message": {"absent": True}}}, TASK, []),
        ({"task": {"artifacts": [{"parts": [{"text": "a"}]}]}}, TASK, []),
        ({"task": {"artifacts": {"type": "array", "count": 1, "items": {"parts": {"count_gte": 2}}}}}, TASK, []),
        # Members that are called as operators are.
        ({"type": {"type": "string"}, "title": {"exists": True}}, {"type": "about:blank", "title": "x"}, []),
        ({"any_of": [{"error": {"exists": True}}, {"title": {"type": "string"}}]}, {"title": "x"}, []),
        ({"one_of": ["a", {"b": 1}]}, {"b": 1}, []),
        ({"not": {"contains": "x"}, "starts_with": "a", "ends_with": "c", "matches": "^a.c$"}, "abc", []),
        ({"gte": 1, "lte": 1, "gt": 0, "lt": 2, "type": "number"}, 1, []),
        ({"contains": "a"}, ["a"], []),
        ({"a": None}, {"a": None}, []),
        ({"a": {}, "b": {}}, {"a": {}, "b": 1}, []),
        ({"a": {"any_of": [{"absent": True}, {"type": "null"}]}}, {}, []),
        ({"task": {"status": {"state": "X"}}}, TASK, ["task.status.state is 'TASK_STATE_WORKING'"]),
        ({"task": {"name": {"exists": True}}}, TASK, ["task.name is missing"]),
        ({"a": {"b": {"c": 1}}}, {"a": 2}, ["a.b.c is missing"]),
        ({"a": 1}, {"a": True}, ["a is True"]),
        ({"type": "number"}, True, ["the answer is True"]),
        ([1, 2], [1], ["[1] is missing"]),
        ({"a": [{"id": 1, "b": {"c": 2}}, {"absent": True}]}, {"a": []}, ["a[0] is missing"]),
        ({"items": [{"id": 1}]}, {}, ["the answer is {}"]),
        ({"count": 1}, {"count": 1}, ["the answer is {'count': 1}"]),
        ({"all_of": [{"type": "string"}, "b"]}, "a", ["the answer is 'a'"]),
        ({"gte": 2}, "3", ["the answer is '3'"]),
        ({"a": None}, {}, ["a is missing"]),
        ({"task": {}}, {"message": {}}, ["task is missing"]),
        ({"a": {"b": {}}}, {"a": {}}, ["a.b is missing"]),
    ],
)
def test_where_an_assertion_does_not_hold(assertion: Any, value: Any, expected: list[str]) -> None:
    assert wrong(assertion, value) == expected


@in_one_test(
    ("kind", "path", "match", "holds"),
    [
        ("any", "task.artifacts[*].parts[*]", {"text": "a"}, True),
        ("any", "task.artifacts[*].parts[*]", {"text": "b"}, False),
        ("all", "task.artifacts[*].parts[*]", {"text": "a"}, False),
        ("all", "task.nothing[*]", {"text": "a"}, False),
        ("none", "task.artifacts[*].parts[*]", {"text": "b"}, True),
        ("none", "task.artifacts[0].parts[0]", {"text": "a"}, False),
    ],
)
def test_collections(kind: str, path: str, match: Any, holds: bool) -> None:
    collection: dict[str, Any] = {kind: CollectionMatch(path=path, match=match)}
    assertion = NamedAssertion(source="s", **collection)
    assert (named_mismatches(assertion, TASK) == []) is holds


def test_paths() -> None:
    assert at(TASK, "task.artifacts[0].parts[0].text") == "a"
    assert at(TASK, "task.artifacts[1]") is MISSING
    assert every_at(TASK, "task.artifacts[*].parts[*].text") == ["a"]
    with pytest.raises(ValueError, match="is no path"):
        at(TASK, "task..id")


@in_one_test(
    ("text", "holds"),
    [
        ("task.status.state == TASK_STATE_WORKING", True),
        ("task.status.state in [A, 'TASK_STATE_WORKING']", True),
        ("task.status.state != TASK_STATE_WORKING", False),
        ("task.name == x", False),
        ("task.name != x", True),
    ],
)
def test_conditions(text: str, holds: bool) -> None:
    assert Until(text).holds(TASK) is holds


def test_references() -> None:
    environment = {"TOKEN": "secret"}
    scope = Scope({"base": "{{own}}/x", "loop": "{{loop}}"}, {"own": "http://a"}, environment.get)
    scope.add("get", "response", TASK)
    scope.add("get", "count", 3)
    filled = scope.fill({"a": "{{get.count}}", "b": ["{{base}} {{env.TOKEN}}"], "c": "{{get.response.task.id}}"})
    assert filled == {"a": 3, "b": ["http://a/x secret"], "c": "t"}
    assert scope.fill("{{$uuid}}") != scope.fill("{{$uuid}}")
    assert scope.source("get.response.task.artifacts[0]") == TASK["task"]["artifacts"][0]  # type: ignore[index]
    for text, expected in (("{{nobody}}", "nothing gives {{nobody}}"), ("{{get.other}}", "has captured no other")):
        with pytest.raises(Unresolved, match=expected):
            scope.fill(text)
    with pytest.raises(Unresolved):
        scope.fill("{{loop}}")


def status(state: str) -> Any:
    return view({"statusUpdate": {"taskId": "t", "status": {"state": f"TASK_STATE_{state}"}}})


def test_events_of_a_stream() -> None:
    events = [view({"task": {"id": "t"}}), status("WORKING"), status("COMPLETED")]
    right = ExpectStream(
        min_count=3,
        max_count=3,
        ordering="monotonic_state",
        events=[{"task": {"id": "t"}}, {"match": "any_position", "status": {"state": "TASK_STATE_COMPLETED"}}],
        final_event={"one_of": [{"task": {}}, {"status_update": {"taskId": "t"}}]},
    )
    assert stream_mismatches(right, events) == []
    strict = ExpectStream(min_count=4, each_event={"status": {"exists": True}}, events=[{"index": 5, "task": {}}])
    assert [sentence(one) for one in stream_mismatches(strict, events)] == [
        "the stream is 3 events",
        "event 5 is not there",
        "event 0.status is missing",
    ]
    message = ExpectStream(final_event={"message": {"exists": True}})
    assert stream_mismatches(message, events)
    assert stream_mismatches(message, [])
    assert not stream_mismatches(message, [view({"message": {"role": "x"}})])


@in_one_test(
    ("states", "ordered"),
    [
        (["SUBMITTED", "WORKING", "WORKING", "COMPLETED"], True),
        (["WORKING", "INPUT_REQUIRED", "WORKING", "COMPLETED"], True),
        (["COMPLETED", "WORKING"], False),
        (["WORKING", "SUBMITTED"], False),
    ],
)
def test_states_go_forward(states: list[str], ordered: bool) -> None:
    expect = ExpectStream(ordering="monotonic_state")
    assert (stream_mismatches(expect, [status(state) for state in states]) == []) is ordered
