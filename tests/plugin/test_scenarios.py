"""``@pytest.mark.a2a_scenario``: conversations that a project's own tests describe."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chaos_oracle import harried
from fake_llm import FakeLLM, say
from harness import Bench, url_of
from scripted import ScriptedExecutor, full_agent

SHOP = Path(__file__).parents[2] / "example_suites" / "own_scenarios"


@pytest.fixture(scope="module")
def shop_url() -> Iterator[str]:
    with url_of(sys.executable, SHOP / "agent.py") as url:
        yield url


@pytest.fixture
def shop(bench: Bench, shop_url: str) -> Bench:
    bench.makeconftest("")
    return bench.with_options(f"--a2a-endpoint={shop_url}")


def write(run: Bench, text: str) -> None:
    run.makepyfile(test_own=f"import pytest\n\n{text}")


def test_the_test_asserts_the_reward(shop: Bench) -> None:
    write(
        shop,
        '@pytest.mark.a2a_scenario("Where is my order A1?")\n'
        "def test_it_is_there(trial):\n"
        '    assert trial.said("has arrived"), "it should be there by now"\n'
        '@pytest.mark.a2a_scenario("Where is my order A1?", trials=2)\n'
        "class TestAll:\n"
        "    def test_way(self, trial):\n"
        '        assert trial.said("on its way")\n',
    )

    alone = shop("--junitxml=j.xml")
    gated = shop("--a2a-min-pass=0.5")

    alone.assert_outcomes(failed=1, passed=2)
    said = "it should be there by now"
    alone.stdout.fnmatch_lines(
        [
            f"*#0: did not do what the test asserts: {said}; reward 0 = ASSERTIONS 0, *",
            f"why: the agent did not do what the test asserts: {said}",
            "what the test asserts:",
            f"  {said} (assert *)",
            "last 2 of 2 messages *",
        ],
        consecutive=True,
    )
    # Beside a gate a miss fails nothing by itself.
    assert gated.ret == 0
    gated.stdout.fnmatch_lines(["*2 of 3 trials succeeded*"])
    assert sorted(r["reward"] for r in shop.stored()) == [0.0, 1.0, 1.0]


def test_another_scenario_of_that_name_is_held_anew(shop: Bench) -> None:
    body = "def test_way(trial):\n    assert trial.turns == 1\n"
    write(shop, f'@pytest.mark.a2a_scenario("Where is my order A1?")\n{body}')
    shop("--a2a-resume").assert_outcomes(passed=1)
    (first,) = shop.stored()
    shop("--a2a-resume").assert_outcomes(passed=1)
    (again,) = shop.stored()
    assert again["reused_from"] == first["run_id"]

    write(shop, f'@pytest.mark.a2a_scenario("I want my money back")\n{body}')
    shop("--a2a-resume").assert_outcomes(passed=1)
    (other,) = shop.stored()
    assert other["reused_from"] is None
    # Nor is it compared with a baseline of the other.
    versions = [one["provenance"]["task_version"] for one in (first, again, other)]
    assert versions[0] == versions[1] != versions[2]


ENDS = """
@pytest.mark.a2a_scenario("Hello")
def test_broken(trial):
    assert 1 / 0

@pytest.mark.a2a_scenario("Hello")
def test_skips(trial):
    pytest.skip("not today")

@pytest.mark.a2a_scenario("Hi")
def test_asks(trial):
    assert trial.called("look_up")

@pytest.mark.a2a_scenario("Where is my order A1?")
class TestOrders:
    def test_way(self, trial):
        if not trial.said("has arrived"):
            pytest.fail("it should be there by now")

    def test_raises(self, trial):
        with pytest.raises(KeyError):
            trial.said("x")
"""


def test_what_a_test_denies_is_a_miss_with_its_values_and_an_exception_beside_that_is_no_verdict(shop: Bench) -> None:
    write(shop, ENDS)
    result = shop()
    result.assert_outcomes(failed=3, errors=2)
    result.stdout.fnmatch_lines_random(
        [
            "*the test failed with ZeroDivisionError: division by zero (test_own.py:6); only *",
            # Without the reward that it denies.
            "*(assert () + where () = called('look_up') + where called = trial.called)",
            "*did not do what the test asserts: it should be there by now; reward 0 = ASSERTIONS 0, *",
            "*did not do what the test asserts: DID NOT RAISE *KeyError*; reward 0 = *",
        ]
    )
    assert [trial["reward"] for trial in shop.stored() if trial["status"] == "evaluated"] == [0.0] * 3


def test_tests_of_one_name_are_reported_apart_by_their_label(shop: Bench) -> None:
    asked = "def test_it(trial):\n    assert trial.said({!r})\n"
    first = '@pytest.mark.a2a_scenario("Where is my order A1?")\n' + asked.format("on its way")
    other = '@pytest.mark.a2a_scenario("I want my money back", label="other")\n' + asked.format("sorry")
    shop.makepyfile(test_one=f"import pytest\n{first}", test_two=f"import pytest\n{other}")
    shop("--import-mode=importlib").assert_outcomes(passed=2)


def test_the_test_takes_its_trial_alone(shop: Bench) -> None:
    write(shop, '@pytest.mark.a2a_scenario("Hi")\ndef test_it(trial, tmp_path):\n    pass\n')
    assert "the test takes tmp_path, but it decides the reward" in shop().stderr.str()


TOOLS = '''
class World:
    def __init__(self):
        self.orders = {"B2": "open"}

    def get_status(self, order: str) -> str:
        """Return the status."""
        return self.orders[order]

    def cancel(self, order: str, reason: str = "") -> dict:
        if "asked" in reason:
            raise ValueError("no such reason")
        return {}

    def _hidden(self): ...


@pytest.mark.a2a_scenario("Cancel order B2.", tools=World)
def test_tools(trial):
    assert trial.called("get_status", order="B2")
    (failed,) = [t for t in trial.transcript if t.role == "tool" and t.error]
    assert failed.text == "Error: no such reason"
'''


def test_tools_are_methods_and_their_errors_are_reported(shop: Bench) -> None:
    write(shop, TOOLS)
    shop().assert_outcomes(passed=1)


@pytest.mark.slow
@pytest.mark.usefixtures("litellm")
def test_a_model_plays_the_user_and_another_judges(shop: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    write(
        shop,
        '@pytest.mark.a2a_scenario(goal="Know where order A1 is.", persona="An aunt.", '
        'criteria=("it is polite", "it lies"))\n'
        "def test_goal(trial):\n"
        '    assert trial.said("on its way")\n',
    )
    played = iter([say("Where is A1, dear?"), say("Thanks ###STOP###")])

    verdict = [{"number": 1, "metExpectation": True}, {"number": 2, "metExpectation": False}]

    def answer(request: dict[str, object]) -> dict[str, object]:
        is_judge = "You judge a conversation" in str(request["messages"])
        return dict(say(json.dumps(verdict)) if is_judge else next(played))

    with FakeLLM(answer) as llm:
        reach = json.dumps({"api_base": llm.api_base, "num_retries": 0})
        result = shop("--a2a-user=llm:openai/user", f"--a2a-set=user-llm-args={reach}", "--a2a-judge-llm=openai/judge")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*broke a criterion: it lies*", "*CRITERIA 0*"])
    (found,) = shop.stored()
    assert [t["role"] for t in found["transcript"]] == ["user", "agent"]
    assert found["provenance"]["judge"] == "openai/judge"
    first = llm.requests[0]["messages"][0]["content"]
    assert "An aunt." in first
    assert "Know where order A1 is." in first


def test_an_agent_that_gives_up_has_failed_and_one_that_is_gone_has_not(bench: Bench, oracle_url: str) -> None:
    bench.makeconftest("")
    write(bench, '@pytest.mark.a2a_scenario("Hello")\ndef test_it(trial):\n    assert trial.turns\n')
    rejected = bench("--a2a-endpoint", oracle_url)
    rejected.assert_outcomes(failed=1)
    rejected.stdout.fnmatch_lines(["*the agent ended the conversation: *rejected*"])
    with harried({"500-late": 1.0}, "noop") as agent:
        failing = bench.with_options(f"--a2a-endpoint={agent.url}", "--a2a-set=redeliver=0")
        failing().assert_outcomes(errors=1)


class Calling(ScriptedExecutor):
    """Calls a tool, whatever it is told; an agent without a job of its own says nothing."""

    async def _work(self, word: str, text: str, *more: Any) -> None:
        call = json.dumps({"tool_call": {"name": "look", "arguments": {}}})
        await super()._work(*(("silent", "") if word == "silent" else ("echo", call)), *more)


def test_an_agent_that_says_nothing_or_calls_for_ever_does_not_do_what_it_must_not(bench: Bench) -> None:
    bench.makeconftest("")
    write(
        bench,
        """
class World:
    def look(self): return 1

@pytest.mark.a2a_scenario("silent")
def test_nothing(trial): assert not trial.said("secret")

@pytest.mark.a2a_scenario("Look!", tools=World)
def test_calls(trial): assert not trial.said("secret")

@pytest.mark.a2a_scenario("echo hi", label="role")
def test_role(trial): assert not trial.said("secret", role="customer")
""",
    )
    with full_agent(executor=Calling()) as url:
        result = bench("--a2a-endpoint", url)
    result.assert_outcomes(failed=2, errors=1)
    result.stdout.fnmatch_lines_random(
        [
            "*test_nothing*: answered with nothing; *",
            "*test_calls*: did the same again and again: look; *",
            "*ValueError: role is 'customer'; valid are: agent, user, tool*",
        ]
    )
