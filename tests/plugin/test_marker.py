import fnmatch

import pytest
from harness import Bench, ids

from pytest_a2a_bench.benchmarks.tau2 import index

HEAD = "import pytest\n"


def collect(bench: Bench, source: str) -> pytest.RunResult:
    bench.makepyfile(test_it=HEAD + source)
    return bench("--co", "-q", "--a2a-endpoint", "builtin:oracle")


def test_split_trials_and_tasks(bench: Bench) -> None:
    literal = index.load_tasks("telecom", "base")[0].task_id
    assert "[" in literal, "and yet it is no pattern"
    result = collect(
        bench,
        f"""
@pytest.mark.tau2("telecom", tasks={literal!r})
def test_literal(trial): pass

@pytest.mark.tau2("airline", split="test", trials=4)
def test_split(trial): assert trial.success

@pytest.mark.tau2("airline", tasks=[12, "3"], label="few")
def test_list(trial): assert trial.success

@pytest.mark.tau2("airline", tasks="1?", label="glob")
def test_glob(trial): assert trial.success

@pytest.mark.tau2("airline", tasks=lambda task_id: int(task_id) > 47, label="function")
def test_function(trial): assert trial.success

class TestClass:
    @pytest.mark.tau2("mock")
    def test_method(self, bench_task): pass
""",
    )
    found = [line.partition("::")[2] for line in ids(result)]
    count = {
        name: sum(i.startswith(name) for i in found)
        for name in ("test_split", "test_glob", "test_literal", "TestClass")
    }
    assert count == {"test_split": 80, "test_glob": 10, "test_literal": 1, "TestClass": 9}
    assert sorted(i for i in found if "list" in i) == ["test_list[12-t0]", "test_list[3-t0]"]
    assert sorted(i for i in found if "function" in i) == ["test_function[48-t0]", "test_function[49-t0]"]


def test_the_same_trial_twice_names_both_tests_and_the_way_out(bench: Bench) -> None:
    source = """
@pytest.mark.tau2("mock", tasks="create_task_1"{label})
def test_x(trial): pass
@pytest.mark.tau2("mock", tasks="create_task_1")
def test_y(trial): pass
"""
    result = collect(bench, source.replace("{label}", ""))
    assert result.ret == 4
    result.stderr.fnmatch_lines(
        [
            "ERROR: test_it.py::test_x[[]create_task_1-t0[]] and test_it.py::test_y[[]create_task_1-t0[]] "
            'are the same trial, tau2/mock/create_task_1#0; *label="..."'
        ]
    )
    assert len(ids(collect(bench, source.replace("{label}", ', label="first"')))) == 2
    # A parametrized test is not told to take a label.
    twice = '@pytest.mark.parametrize("limit", [1, 2])\ndef test_x(trial, limit): pass\n'
    result = collect(bench, f'@pytest.mark.tau2("mock", tasks="create_task_1")\n{twice}')
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: *test_x* and *test_x* are the same trial, *; a parametrized test *body*"])
    assert 'label="' not in result.stderr.str()


def test_a_fixture_that_hides_ours_or_is_of_another_scope_is_named(bench: Bench) -> None:
    for name, problem in {
        "trial": "test_it.py::test_x: the fixture 'trial' is not ours *conftest.py:2, *",
        "a2a_message_metadata": "the fixture 'a2a_message_metadata' at *conftest.py:2 has scope 'function'*",
    }.items():
        bench.makeconftest(f"import pytest\n@pytest.fixture\ndef {name}(): return {{}}")
        result = collect(bench, "@pytest.mark.tau2('mock')\ndef test_x(trial): pass")
        assert result.ret == 4
        result.stderr.fnmatch_lines([f"ERROR: {problem}"])


def test_without_an_agent(bench: Bench) -> None:
    bench.makepyfile(test_it=HEAD + "@pytest.mark.tau2('mock')\ndef test_x(trial): pass\ndef test_y(): pass")
    bench.refused().fnmatch_lines(["ERROR: test_it.py::test_x[[]create_task_1-t0[]] and 8 more: no agent to test; *"])
    bench("-k", "test_y").assert_outcomes(passed=1, deselected=9)


WRONG_AND_RIGHT = """
import pytest

@pytest.mark.desk("front", trails=2)
def test_wrong_marker(trial): pass

def test_no_marker(trial): pass

@pytest.mark.desk("front", tasks="ok")
def test_right(trial): assert trial.success
"""


def test_a_wrong_test_matters_only_if_it_is_selected(desk: Bench) -> None:
    desk.makepyfile(test_desk=WRONG_AND_RIGHT)
    desk("-k", "test_right").assert_outcomes(passed=1)
    for chosen in (("-m", "front"), ("test_desk.py::test_wrong_marker",)):
        said = desk.refused(*chosen)
        said.fnmatch_lines(["ERROR: test_desk.py::test_wrong_marker: *does not know trails*"])
        assert "test_no_marker" not in said.str()


def test_a_dialect_is_a_fixture(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from pytest_a2a_bench import AgentSaid, Briefing, Dialect, Part, ToolCall, ToolSpec, UserSaid

        TOOLS = (ToolSpec("look", "Look it up.", {"type": "object", "properties": {"id": {"type": "integer"}}}),)

        def test_both_ways(a2a_dialect: Dialect):
            (part,) = a2a_dialect.encode_request(Briefing("Be kind.", TOOLS), [UserSaid("Hi")])
            assert ("- look(id: integer)" in part.text) is (a2a_dialect.name == "tool_list")
            assert a2a_dialect.decode_request([part]).events == (UserSaid("Hi"),)
            text = '{"tool_call": {"name": "look", "arguments": {"id": 1}}}'
            assert a2a_dialect.decode_reply([Part.of_text(text)], TOOLS).calls == (ToolCall("look", {"id": 1}),)
        """
    )
    for options in ((), ("--a2a-dialect=tool_list",)):
        pytester.runpytest(*options).assert_outcomes(passed=1)


# Wrong arguments: one usage error names every test of the run and what is wrong with its marker.


WRONG = (
    ("", "*needs a marker*@pytest.mark.tau2(?airline?)*"),
    ("a2a_senario('Hi')", "*needs a marker*; did you mean 'a2a_scenario'?"),
    ("tau2()", "*domain: missing; valid are: airline, retail, telecom, mock, banking_knowledge"),
    ("tau2('airlines')", "*domain: 'airlines' is not one of airline, *"),
    ("tau2('airline', 'test')", "*takes one positional argument, the domain, and got 2"),
    ("tau2('airline', trails=2, trials=0)", "*does not know trails; *; trials: 0 is not a whole number of at least 1"),
    ("tau2('airline', trials=True)", "*trials: True is not a whole number*"),
    ("tau2('airline', label='a b')", "*label: 'a b' is not made of *"),
    ("tau2('airline', tasks=7.5)", "*tasks: 7.5 is not a list of ids*"),
    ("tau2('airline', tasks=['12', '99'])", "tasks: no task matches '99' in split 'base'; its ids look like: 0, 1*"),
    ("tau2('airline', tasks=[])", "tasks: the list is empty; leave it out for all tasks"),
    ("tau2('airline', tasks=lambda task_id: 1 / 0)", "tasks: the function raised ZeroDivisionError: *called with '0'"),
    ("tau2('airline', tasks=lambda: True)", "tasks: the function raised TypeError: *; it is called with '0'"),
    ("tau2('airline', tasks=lambda task_id: False)", "tasks: the function accepts none of the 50 tasks"),
    ("tau2('mock', split='test')", "tau2 domain 'mock' has no split 'test'; it has: base"),
    ("tau2('banking_knowledge')", "the domain 'banking_knowledge' is not in the installed tau2; *"),
    ("crmarena('mini', category='handling')", "*category: 'handling' is none of handle_time, transfer_count, *"),
    ("crmarena('mini', category=[])", "*category: nothing is none of handle_time, *"),
    ("crmarena('mini', category=3)", "*category: 3 is not a category, a glob pattern or a list of these"),
    ("crmarena('mini', kategory='x')", "*does not know kategory; valid are: domain, *, category; did you mean *"),
    ("crmarena('micro')", "*domain: 'micro' is not one of mini, mini_interactive, original, *"),
    ("crmarena('b2b')", "the domain 'b2b' is data of CRMArena's*"),
    ("crmarena('mini', split='test')", "crmarena domain 'mini' has no split 'test'; it has: base"),
    ("a2a_scenario()", "*there is nothing to say*"),
    ("a2a_scenario(3)", "*what the user says are texts"),
    ("a2a_scenario('Hi', goal='x')", "*not both"),
    ("a2a_scenario('Hi', persona='x')", "*persona is for a model that plays the user; give a goal in place *"),
    ("a2a_scenario(goal='x', answers={'id': '7'})", "*answers are for a user with sentences; write into the goal *"),
    (
        "a2a_scenario('Hi', answers={'(': 'x'})",
        "*answers: '(' is no regular expression: missing ), unterminated subpattern*",
    ),
    ("a2a_scenario('Hi', answers={'a': 5})", "*is not a dict of regular expressions and answers*"),
    ("a2a_scenario('Hi', tools=3)", "*is not a class, or a function that makes an object*"),
    (
        "a2a_scenario('Hi', max_turns=0, criteria='polite')",
        "*criteria: 'polite' is not a list of sentences; max_turns: 0 is not*",
    ),
    ("a2a_scenario('Hi', persno='x')", "*does not know persno; valid are: *; did you mean 'persona'?"),
    (
        "a2a_scenario('Hi', tools=type('T', (), {'act': lambda self, **more: 1}))",
        "*act takes parameters without names*",
    ),
    ("a2a_scenario('Hi', trials=0)", "*trials: 0 is not a whole number*"),
)
WRONG_CHECKS = (
    ("", "*needs a marker that says which*"),
    ("conformance", "*takes one positional argument*"),
    ('conformance("crad")', "*takes one positional argument*"),
    ('conformance("card", levle="MUST")', "*does not know levle*"),
    ('conformance("protocol", group="nogroup")', "*group names 'nogroup'; there are card, *"),
    ('conformance("protocol", level="must")', "*level names 'must'; there are MUST, SHOULD, MAY*"),
    ('conformance("protocol", id=["SEND-001", "SEND-999"])', "*id names 'SEND-999'; there are *"),
    ('conformance("protocol", binding="JSON-RPC")', "*binding names 'JSON-RPC'; there are JSONRPC, *"),
    ('conformance("protocol", version="2.0")', "*version names '2.0'; there are 1.0, 0.3*"),
    ('conformance("protocol", level=3)', "*level=3 is no text, nor a list of texts"),
    ('conformance("protocol", level=[])', "*level names nothing; there are MUST*"),
    ('conformance("protocol", group="x", level="y")', "*group names 'x'*; level names 'y'*"),
)


@pytest.mark.parametrize(("fixture", "wrong"), [("trial", WRONG), ("conformance_check", WRONG_CHECKS)])
def test_each_is_named_with_its_test(
    bench: Bench, noop_url: str, fixture: str, wrong: tuple[tuple[str, str], ...]
) -> None:
    bench.makepyfile(
        test_it="import pytest\n"
        + "\n".join(
            f"{marker and '@pytest.mark.'}{marker}\ndef test_{number}({fixture}): pass"
            for number, (marker, _) in enumerate(wrong)
        )
    )
    result = bench("--a2a-endpoint", noop_url)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    expected = [f"ERROR: test_it.py::test_{number}: {problem}" for number, (_, problem) in enumerate(wrong)]
    said = [line for line in result.errlines if line]
    assert len(said) == len(expected)
    assert [
        pattern for line, pattern in zip(said, expected, strict=True) if not fnmatch.fnmatchcase(line, pattern)
    ] == []


def test_a_marker_that_makes_no_trial_is_refused(bench: Bench, noop_url: str) -> None:
    bench.makepyfile(
        test_it="""
import unittest, pytest
one = pytest.mark.tau2("mock", tasks="create_task_1", label="one")
two = pytest.mark.tau2("mock", tasks="update_task_1", label="two")

@one
def test_without(): pass

@one
@two
def test_both(trial): assert trial.success

@pytest.mark.a2a_scenario("Hi")
def test_said(): pass

class TestOld(unittest.TestCase):
    @one
    def test_case(self): pass

@one
class TestNew:
    def test_other(self): pass

    @two
    def test_own(self, trial): assert trial.success
"""
    )
    result = bench("--a2a-endpoint", noop_url)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "ERROR: test_it.py::test_without: a test with @pytest.mark.tau2 takes trial, which this one does not",
            "ERROR: test_it.py::test_both: a test has one marker that says which tasks; this one has *: write a test *",
            "ERROR: test_it.py::test_said: a test with @pytest.mark.a2a_scenario takes trial, which this one does not",
            "ERROR: test_it.py::TestOld::test_case: a test of a unittest class takes no fixtures, and so no trial: *",
        ]
    )
    # A class's marker is for those of its tests that take trials, and their own goes before it.
    found = ids(bench("--co", "-q", "--a2a-endpoint", noop_url, "-k", "TestNew"))
    assert found == ["test_it.py::TestNew::test_other", "test_it.py::TestNew::test_own[update_task_1-t0]"]
