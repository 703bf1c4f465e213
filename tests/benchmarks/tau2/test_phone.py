"""The scripted user's phone: what an agent's words do to it, and what they do not."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from examples import sampled
from fake_llm import say
from llm_agent import agents_model
from one_test import in_one_test
from tau2_table import Table, load
from trials import RunTrials

from pytest_a2a_bench.benchmarks.diagnosis import diagnose
from pytest_a2a_bench.benchmarks.tau2 import upstream
from pytest_a2a_bench.benchmarks.tau2.diagnosis import DIAGNOSER
from pytest_a2a_bench.benchmarks.tau2.user.scenario import Scenario
from pytest_a2a_bench.benchmarks.tau2.user.script import Script
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import TrialKey, TrialResult, UserFault
from pytest_a2a_bench.reports import summary
from pytest_a2a_bench.reports.trial_text import clusters

SENTENCES = tomllib.loads(Path(__file__).with_name("phone_sentences.toml").read_text())


def changes(said: str, before: list[str]) -> list[str]:
    """Return the calls with which the user changes its phone when it hears a text."""
    tau2 = upstream.load()
    task = load("telecom")[0]
    environment, _ = upstream.build_environment(tau2, "telecom", task)
    phone = environment.user_tools
    for function in before:
        if function == "turn_wifi_calling_on":
            phone.set_wifi_calling(enabled=True)
        else:
            getattr(phone, function)()
    script = Script(Scenario("Something is wrong with my phone."), tools=[t.name for t in environment.get_user_tools()])
    script.hear("Hi! How can I help you today?")
    made = []
    reply: Any = script.hear(said)
    while isinstance(reply, tuple):
        name, arguments = reply
        if phone.tool_type(name).value == "write":
            made.append(f"{name}({', '.join(f'{k}={v!r}' for k, v in arguments.items())})")
        reply = script.after_action([str(environment.use_user_tool(name, **arguments))])
    return made


def test_a_hand_that_never_saw_the_reader_is_understood_in_29_of_30() -> None:
    looked = {said: made for said in SENTENCES["look"] if (made := changes(said, []))}
    message = {
        s["said"]: made for s in SENTENCES["do"] if (made := changes(s["said"], s.get("before", []))) != s["calls"]
    }
    assert len(SENTENCES["look"]) == len(SENTENCES["do"]) == 30
    assert (len(looked) <= 1, len(message) <= 1) == (True, True), (looked, message)


@in_one_test(
    "said",
    [
        "Check what your network mode is set to (4G, 5G).",
        "Check that the SIM is seated properly.",
        "Tap SIM card lock. Enter your SIM PIN.",
        "Check your payment requests and tell me the amount.",
        "Have you already restarted your phone?",
        "I've turned off airplane mode for you and re-seated your SIM.",
        "When you have a minute, tell me if roaming is on.",
        "The messaging app needs the SMS permission to send picture messages.",
        "I called toggle_roaming() for you.",
        "Let me know once you have paid the bill.",
        "Your options are 5G, 4G, 3G and 2G. Which of them is set?",
        "Once I have refueled your data, I will ask you to restart the phone.",
        "Restart the phone once I have refueled your data.",
    ],
)
def test_looking_changes_nothing(said: str) -> None:
    assert changes(said, []) == []


@in_one_test(
    ("said", "before", "calls"),
    [
        ("Turn off Wi-Fi.", [], []),
        ("Turn off Wi-Fi.", ["toggle_wifi"], ["toggle_wifi()"]),
        ("Please turn airplane mode off.", [], []),
        ("Switch mobile data off and on again.", [], ["toggle_data()", "toggle_data()"]),
        (
            "Make sure that roaming is off and mobile data is on.",
            ["turn_data_off", "turn_roaming_off"],
            ["toggle_data()"],
        ),
        ('Prefer "4G and 5G" as network mode.', [], ["set_network_mode_preference(mode='4g_5g_preferred')"]),
    ],
)
def test_the_user_touches_no_setting_that_is_right_already(said: str, before: list[str], calls: list[str]) -> None:
    assert changes(said, before) == calls


@in_one_test(
    ("said", "calls"),
    [
        ('Please run grant_app_permission(app_name="messaging", permission="sms").', 1),
        ('grant_app_permission({"app_name": "messaging", "permission": "sms"})', 1),
        ("Could you call `reset_apn_settings()` and then `reboot_device()`?", 2),
        ("Please toggle data.", 1),
        ("1. toggle_wifi()\n2. toggle_wifi_calling()", 2),
        ("grant_app_permission", 0),
        ("grant_app_permission(app_name=)", 0),
    ],
)
def test_a_call_that_is_written_as_text_is_made(said: str, calls: int) -> None:
    assert len(changes(said, ["turn_data_off"])) == calls


def held(task: Any, texts: list[str]) -> tuple[list[str], float]:
    """Hold a task: the agent makes its golds' calls and says texts. Return the changes of the phone and the reward."""
    table, wanted = Table("a"), [a for a in task.evaluation_criteria.actions or () if a.requestor == "assistant"]
    calls = iter([(a.name, dict(a.arguments)) for a in wanted])
    words = iter(texts)

    class Looker:
        def next(self, heard: str) -> Any:
            return next(calls, None) or next(words, "Goodbye!")

    reward = table._hold("telecom", task, Looker())  # type: ignore[arg-type]
    kinds = {t.name for t in upstream.build_environment(table.tau2, "telecom", task)[0].get_user_tools()}
    made = [
        c.name for m in table.simulation.messages if m.role == "user" for c in m.tool_calls or () if c.name in kinds
    ]
    return [name for name in made if not name.startswith(("check_", "can_", "run_"))], reward


@pytest.mark.parametrize("part", sampled(range(18), 18))
def test_an_agent_that_only_asks_to_look_moves_no_phone(part: int) -> None:
    """Over all base tasks; it passes those alone in which nobody has to touch the phone."""
    for task in load("telecom")[part::18]:
        own = [a.name for a in task.evaluation_criteria.actions or () if a.requestor == "user"]
        moved, reward = held(task, SENTENCES["look"])
        assert (task.id, moved) == (task.id, [])
        assert not own or reward < 1.0, task.id


def say_always(run_trials: RunTrials, text: str, **options: Any) -> TrialResult:
    agents_model().play(lambda request: say(text))
    [task, *_] = [t for t in load("telecom") if "airplane_mode_on" in t.id]
    [result] = run_trials(agents_model().spec, Settings(**options), [TrialKey("tau2", "telecom", task.id)])
    assert (result.status, result.success) == ("evaluated", False), result.error
    return result


@pytest.mark.filterwarnings("ignore")  # LiteLLM warns about much, in threads of its own
def test_a_miss_says_that_the_script_did_not_understand(run_trials: RunTrials) -> None:
    said = "Please lift airplane mode."
    result = say_always(run_trials, said, user_retry=2)
    assert result.user_fault == UserFault("not_understood", f"the agent: {said!r}")
    # A script has no seed: it would understand no more.
    assert result.user_retries == ()
    message = diagnose(result, DIAGNOSER)
    assert message is not None
    assert (message.kind, message.subject, message.detail) == ("user", "not_understood", result.user_fault.detail)
    [cluster] = clusters([result])
    assert (cluster.cause.blame, "agent" in cluster.fix) == ("user", False)
    [line] = [line for line in summary.caveats([result]) if "at fault" in line]
    assert "1x not_understood" in line
    assert "holds such trials again" not in line


@pytest.mark.filterwarnings("ignore")
def test_a_miss_that_had_no_such_sentence_has_no_such_fault(run_trials: RunTrials) -> None:
    assert say_always(run_trials, "Have you restarted your phone?").user_fault is None
