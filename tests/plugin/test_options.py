"""``--a2a-user a2a:URL`` as a run has it: found before the first item, told everywhere, and part of what is reused."""

import fnmatch
import json
import os
import re
import signal
import threading
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from commands import command, refused
from harness import Bench, log_of
from one_test import in_one_test
from raw_agent import Request, fine, raw_agent, rpc
from tau2_verification import verify_stored
from user_agents import ScriptedUsers, Speaker, served_brain

from pytest_a2a_bench.model import TrialKey
from pytest_a2a_bench.reports.live import Watched
from pytest_a2a_bench.results import lock
from pytest_a2a_bench.results.live import Growing

ORACLE = ("--a2a-endpoint=builtin:oracle", "a2a/mock::test_mock[create_task_1-t0]")


@pytest.mark.slow
def test_a_run_says_who_played_the_user(bench: Bench) -> None:
    with served_brain(Speaker(ScriptedUsers())) as url:
        result = bench(*ORACLE, f"--a2a-user=a2a:{url}", "--a2a-html=page.html")
        result.assert_outcomes(passed=1)
        shown = result.stdout.str()
        assert f"user played by the agent at {url}: not leaderboard numbers" in shown
        assert "user simulator: pytest-a2a-bench noop" in shown
        assert "not comparable with leaderboard numbers" in shown
        assert verify_stored(bench.path / "a2a-results") == []
        assert "An A2A agent plays the user." in Path("page.html").read_text()
        (stored,) = (bench.path / "a2a-results" / "trials").glob("*.json")
        trial = json.loads(stored.read_text())
        assert [(p["role"], p["turns"] > 1, p["usage"]["input_tokens"] > 0) for p in trial["parties"]] == [
            ("user", True, True)
        ]
        again = bench(*ORACLE, f"--a2a-user=a2a:{url}", "--a2a-resume")
        assert "reused, not run again (--a2a-resume): 1 of 1 trials" in again.stdout.str()
    with served_brain(Speaker(ScriptedUsers())) as elsewhere:
        other = bench(*ORACLE, f"--a2a-user=a2a:{elsewhere}", "--a2a-resume")
        other.assert_outcomes(passed=1)
        assert "reused, not run again" not in other.stdout.str()


REFUSED = (
    ("--a2a-user=a2a:http://127.0.0.1:9", "ERROR: --a2a-user=a2a:http://127.0.0.1:9: "),
    ("--a2a-set=colleague=ann=http://127.0.0.1:9", "ERROR: --a2a-set colleague=ann=http://127.0.0.1:9: "),
    ("--a2a-user=a2a:http://127.0.0.1:9 --a2a-set=user-auth-env=NOBODYS_TOKEN", "ERROR: user-auth-env*NOBODYS_TOKEN"),
    ("--a2a-set=user-auth-env=TOKEN", "user-auth-env is for an agent that plays the user"),
    ("--a2a-set=colleague=http://x", "expected NAME=URL"),
    ("--a2a-set=colleague=user=http://x", "expected NAME=URL"),
    ("--a2a-set=colleague=ann=builtin:oracle", "no built-in agent is a colleague"),
    ("--a2a-set=colleague=ann=http://x --a2a-set=colleague=Ann=http://y", "two colleagues have one name (ann, Ann)"),
    ("--a2a-set=colleague-auth-env=TOKEN", "colleague-auth-env is for an agent that may be asked"),
    ("--a2a-set=colleague=ann=http://x --a2a-dialect=crm_action", "no word for a colleague"),
    ("--a2a-set=mcp-bind=127.0.0.1:1", "add --a2a-tools mcp"),
    ("--a2a-tools=mcp --a2a-dialect=sierra", "--a2a-dialect=sierra says how calls are written in messages"),
    ("--a2a-tools=mcp --a2a-record=tapes", "--a2a-record and --a2a-tools=mcp exclude each other"),
    ("--a2a-tools=mcp --a2a-set=mcp-url=http://x", "says where it listens; give HOST:PORT (mcp-bind"),
    ("--a2a-tools=mcp --a2a-set=mcp-bind=0.0.0.0:80", "which is no address to call; give its URL too"),
    ("--a2a-tools=mcp --a2a-set=mcp-bind=here", "is to listen on 'here'; give HOST:PORT"),
    ("--a2a-tools=mcp --a2a-set=mcp-bind=127.0.0.1:81 -n2", "-n starts several processes, each with a server"),
    ("--a2a-set=reply-limits=rows=3", "reply-limits: 'rows' is no limit of a reply; the limits are calls, "),
    ("--a2a-noise=wrong=0.1 --a2a-baseline=b.json", "compares with the run's own plain trials"),
    ("--a2a-max-noise-loss=0.1", "--a2a-max-noise-loss needs noise: add --a2a-noise"),
    ("--a2a-noise=wrong=0.1 --a2a-trials=auto --a2a-min-pass=0.5", "--a2a-trials auto"),
    ("a=URL b=URL --a2a-noise=wrong=0.1", "give one endpoint without a name, not a, b"),
    ("a=URL URL", "some endpoints have a name and some have none"),
    ("a=URL A=URL", "two endpoints have one name (a, A)"),
    ("a=URL b=nowhere", "b: 'nowhere' is not an endpoint"),
    ("URL --a2a-set=transfer=b", "--a2a-set transfer=b: the endpoints have no names"),
    ("a=URL c=URL --a2a-set=transfer=b", "--a2a-set transfer=b: the endpoints are a, c"),
    ("b=URL --a2a-set=transfer=b", "there is no other agent that could transfer to it"),
    ("a=URL b=URL --a2a-set=transfer=b --a2a-tools=mcp", "in the middle of its turn when it transfers"),
    ("a=URL b=URL --a2a-record=tapes", "--a2a-record has the conversations of one agent"),
    ("a=URL b=URL --a2a-baseline=c=x", "--a2a-baseline c=...: no agent under test is called c"),
    ("a=URL b=URL --a2a-suite=card", "the protocol is judged on one agent"),
    ("builtin:noop?latency=much", "ERROR: --a2a-endpoint=builtin:noop[?]latency=much: *latency"),
    ("a=URL b=http://127.0.0.1:1", "--a2a-endpoint=a=URL b=http://127.0.0.1:1: b: "),
    ("http://127.0.0.1:9 --a2a-direct=http://127.0.0.1:9/", "--a2a-direct is the gateway itself, like --a2a-endpoint"),
    ("--a2a-ray=auto", "add -n N"),
    ("--a2a-ray=auto -n2 --a2a-set=ray-runtime-env=no.json", "no.json: cannot be read"),
    ("--a2a-ray=auto -n2 --a2a-set=ray-cpus=0", "'0' is not a number above 0"),
    ("builtin:noop --a2a-ray=auto -n2", "listens on this machine only"),
    ("--a2a-trials=auto:1", "needs a gate that can be decided: add --a2a-min-pass RATE or --a2a-baseline"),
    ("--a2a-trials=auto", "needs a gate that can be decided: add --a2a-min-pass RATE or --a2a-baseline"),
    # The leaks of a run are those of all its trials.
    ("--a2a-min-pass=0.5 --a2a-set=max-metric=leak=0! --a2a-trials=auto:1", "max-metric and --a2a-trials auto exclude"),
    ("--a2a-min-pass=0.5 --a2a-set=max-metric=leak=0! --a2a-trials=auto", "max-metric and --a2a-trials auto exclude"),
    ("--a2a-max-drop=0.1", "--a2a-max-drop is measured from a baseline"),
    ("--a2a-min-pass-k=2=0.1", "--a2a-min-pass-k 2=0.1 needs --a2a-trials 2; there are tasks with 1 here"),
    ("--a2a-html=folder", "--a2a-html=*folder: it is a directory; give the name of a file"),
    ("--a2a-results=file", "ERROR: *results directory *file cannot be written: "),
    ("--a2a-set=env-file=absent.env", "--a2a-set env-file=*absent.env: No such file or directory"),
    (
        "--a2a-set=env-file=wrong.env",
        "--a2a-set env-file=*wrong.env, line 2: expected NAME=VALUE, as OPENAI_API_KEY=...",
    ),
    # Suites and tasks.
    ("--a2a-suite=desks", "ERROR: --a2a-suite: unknown suite 'desks'; valid are: "),
    ("--a2a-suite=mock,airline --a2a-split=test", "ERROR: mock has no split 'test'; it has: base"),
    (
        "--a2a-suite=banking_knowledge",
        "ERROR: banking_knowledge is not in the installed tau2; it has: airline, retail, ",
    ),
    ("a2a/airline::test_airline[999-t0]", "not found: a2a/airline::test_airline[[]999-t0]*--a2a-split=base"),
    ("--a2a-tau2-data=nowhere", "--a2a-tau2-data: */nowhere is not a directory; name a checkout of tau2-bench"),
    ("--a2a-tau2-data=.", "has no data of tau2's (neither data/tau2/domains nor tau2/domains)"),
    ("--a2a-suite=b2b", "ERROR: b2b is data of CRMArena's, which is not ours to ship; download it "),
    ("--a2a-suite=mini --a2a-split=test", "ERROR: mini has no split 'test'; it has: base"),
    ("--a2a-suite=crmarena --a2a-split=test", "ERROR: mini has no split 'test'; it has: base"),
    ("--a2a-suite=airline,crmarena --a2a-split=test", "ERROR: mini has no split 'test'; it has: base"),
    ("a2a/crmarena_mini::test_mini[handle_time-99-t0]", "not found: a2a/crmarena_mini::test_mini[[]handle_time-99-"),
    ("--a2a-crm-data=nowhere", "--a2a-crm-data: *nowhere is not a directory"),
    ("--a2a-set=crm-drift=much", "--a2a-set crm-drift: 'much' is not one of none, low, medium, high"),
    ("--a2a-set=crm-threshold=2", "--a2a-set crm-threshold: '2' is not a number above 0 and up to 1"),
    ("--a2a-set=crm-org=salesforce", "crm-org=salesforce has rows and no tasks: add --a2a-crm-data"),
    (
        "--a2a-set=crm-org=salesforce --a2a-crm-data=. --a2a-set=crm-drift=low",
        "of a local org only; leave out crm-org=salesforce",
    ),
    # The protocol.
    ("--a2a-suite=card --a2a-waivers=wrong.toml", "ERROR: *wrong.toml: "),
    ("--a2a-suite=card --a2a-scenarios=wrong.toml", "ERROR: *wrong.toml: "),
    ("--a2a-suite=card --a2a-waivers=absent.toml", "ERROR: *absent.toml: "),
    ("--a2a-suite=card --a2a-set=card-jwks=none.json", "key set *none.json: No such file"),
    ("--a2a-suite=protocol --a2a-set=webhook-bind=here", "the webhook is to listen on 'here'; give HOST:PORT"),
    ("--a2a-suite=protocol --a2a-set=webhook-bind=0.0.0.0:8099", "no address to call; give its URL too"),
    ("--a2a-suite=protocol --a2a-set=webhook-url=https://t.example", "nothing says where it listens"),
    ("--a2a-suite=acts", "a2a/acts has the tests of ACTS files: name them with --a2a-set acts=PATH"),
    (
        "--a2a-suite=card --a2a-set=acts=/no/such.yaml",
        "ERROR: */no/such.yaml: it cannot be read: No such file or directory",
    ),
    ("--a2a-suite=card --a2a-set=acts-behaviors=x", "ERROR: acts-behaviors: give --a2a-set acts=PATH"),
    ("--a2a-quarantine=wrong.toml", "ERROR: --a2a-quarantine: quarantine *wrong.toml: "),
    # Recordings.
    ("--a2a-replay=nowhere", "--a2a-replay: *nowhere holds no cassettes: it has no agent.json"),
    ("http://127.0.0.1:9 --a2a-replay=a --a2a-record=b", "--a2a-record and --a2a-replay exclude each other"),
    # Damaged files.
    ("--a2a-baseline=deep.json", "ERROR: *deep.json*; "),
    ("--a2a-missed", "ERROR: *a2a-results/verdict.json*; "),
    ("--a2a-replay=tapes", "ERROR: *tapes/agent.json*; "),
)
"""Options of a run on tau2's mock domain, the endpoints among them without their option's name, and the refusal."""

DAMAGES = {
    "deep.json": b'{"a": ' + b"[" * 100_000,
    "a2a-results/verdict.json": b"null",
    "tapes/agent.json": b"\x89PNG\x00\xff",
}
"""A file that is damaged in each of three ways."""


@in_one_test(("options", "says"), REFUSED)
def test_wrong_options_are_refused_in_a_line(bench: Bench, noop_url: str, options: str, says: str) -> None:
    (bench.path / "folder").mkdir(exist_ok=True)
    (bench.path / "file").touch()
    (bench.path / "wrong.env").write_text("A=b\nsk-secret\n")
    (bench.path / "wrong.toml").write_text('slwo = "wait"\n[[waiver]]\nid = "NOPE-1"\nreason = ""\n')
    for name, damage in DAMAGES.items():
        (bench.path / name).parent.mkdir(exist_ok=True)
        (bench.path / name).write_bytes(damage)
    endpoints = [o.replace("URL", noop_url) for o in options.split() if not o.startswith(("-", "a2a/"))]
    given = [o for o in options.split() if o.startswith(("-", "a2a/"))]
    if not any(o.startswith(("--a2a-suite", "a2a/")) for o in given):
        given.append("--a2a-suite=mock")
    said = bench.refused(*(f"--a2a-endpoint={endpoint}" for endpoint in endpoints or [noop_url]), *given)
    # A file that is not there is a problem of its own.
    lines = [line for line in said.lines if line.startswith("ERROR")]
    (line,) = lines if len(lines) == 1 else [line for line in lines if not re.search("cannot be read|holds no", line)]
    assert fnmatch.fnmatchcase(line.replace(noop_url, "URL"), f"*{says}*")
    assert "sk-secret" not in said.str()
    assert not list(bench.path.glob("a2a-results/trials/*"))


# ``--a2a-tools mcp`` as a user has it: what may be combined, what is kept, and what is not repeated in vain.


ORACLE_OPTION = ("--a2a-endpoint", "builtin:oracle", "--a2a-suite", "mock", "-k", "update_task_1", "-q")


@pytest.mark.slow
def test_a_run_keeps_no_token_and_says_how_tools_were_called(bench: Bench) -> None:
    result = bench.apart(*ORACLE_OPTION, "--a2a-tools", "mcp", "--junitxml=junit.xml", "--a2a-html=page.html")
    result.assert_outcomes(passed=1)
    trials = [json.loads(path.read_text()) for path in Path(bench.path, "a2a-results", "trials").rglob("*.json")]
    assert len(trials) == 1
    for trial in trials:
        assert trial["dialect"] == "mcp"
        assert (trial["provenance"]["tools"], trial["provenance"]["native_calls"]) == ("mcp", 1)
    # The calls that the agent made by itself, played back by tau2's own code.
    assert verify_stored(bench.path / "a2a-results") == []
    for path in Path(bench.path).rglob("*"):
        if path.is_file() and path.suffix in (".json", ".html", ".xml"):
            assert "Bearer " not in path.read_text().replace("Bearer ***", "")

    # The same question is answered already; asked by the other door it is another one.
    bench.apart(*ORACLE_OPTION, "--a2a-tools", "mcp", "--a2a-resume").assert_outcomes(passed=1)
    assert reused(bench) == [True]
    bench(*ORACLE_OPTION, "--a2a-resume").assert_outcomes(passed=1)
    assert reused(bench) == [False]


def reused(run: Bench) -> list[bool]:
    return [bool(trial["reused_from"]) for trial in run.stored()]


@pytest.mark.slow
def test_a_benchmark_that_offers_no_tools_says_so(desk: Bench) -> None:
    result = desk.apart("--a2a-tools", "mcp")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*the suite 'desk' does not offer its tools over MCP*TrialContext.native*"])


def test_variables_of_the_file_are_there_for_the_run(desk: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.tasks("ok")
    monkeypatch.setenv("A2A_CANARY_KEPT", "mine")
    desk.makefile(".env", canary="export A2A_CANARY_KEY='sung'\nA2A_CANARY_KEPT=theirs\n")
    desk.makepyfile(
        test_variables="""
            import os

            def test_variables():
                assert (os.environ["A2A_CANARY_KEY"], os.environ["A2A_CANARY_KEPT"]) == ("sung", "mine")
        """
    )
    desk("--a2a-set=env-file=canary.env").assert_outcomes(passed=2)
    assert "A2A_CANARY_KEY" not in os.environ


TOKEN = "nightingale-4711"

ASKS = """
    import os

    from pytest_a2a_bench.model import Part

    def test_shows_it_before_anybody_is_asked():
        assert [os.environ[name] for name in ("A2A_AUTH_TOKEN", "SONGBIRD") if name in os.environ] == []

    def test_asks(a2a_client):
        text = a2a_client.session().send([Part.of_text("hello")]).text
        assert text == "nothing"
"""


@pytest.mark.parametrize("name", ["A2A_AUTH_TOKEN", "SONGBIRD"])
def test_the_agents_token_may_come_from_the_file_and_is_hidden(bench: Bench, name: str) -> None:
    def repeat(request: Request) -> bytes:
        said = request.headers.get("authorization", "none")
        parts = [{"kind": "text", "text": f"you sent {said}"}]
        return rpc({"kind": "message", "role": "agent", "messageId": "m", "parts": parts}, request)

    bench.makefile(".env", song=f"{name}={TOKEN}\n")
    bench.makepyfile(test_asks=ASKS)
    named = [] if name == "A2A_AUTH_TOKEN" else [f"--a2a-auth-env={name}"]
    with raw_agent(repeat) as agent:
        agent.card["securitySchemes"] = {"s": {"type": "http", "scheme": "bearer"}}
        agent.card["security"] = [{"s": []}]
        result = bench("--a2a-endpoint", agent.url, "--a2a-set=env-file=song.env", "test_asks.py", *named)
    result.assert_outcomes(failed=2)
    assert {m.headers["authorization"] for m in agent.messages} == {f"Bearer {TOKEN}"}
    shown = result.stdout.str() + result.stderr.str()
    assert "you sent Bearer ***" in shown
    assert TOKEN not in shown


# ``--a2a-history-file``: runs are added, what changed is told, and nothing is added that would mislead.


def test_runs_are_added_to_and_compared_with_a_history(desk: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_SHA", "0123456789abcdef")
    desk.tasks("ok turn")
    options = ("--a2a-history-file=runs.jsonl", "--a2a-min-pass=0.1", "--a2a-html=page.html")
    desk(*options)
    desk(*options).stdout.fnmatch_lines(["a2a: success rate of the last 2 of 2 runs, the newest last: *"])
    lines = [json.loads(line) for line in (desk.path / "runs.jsonl").read_text().splitlines()]
    assert [line["revision"] for line in lines] == ["0123456789ab"] * 2
    assert lines[0]["tasks"].keys() == lines[1]["tasks"].keys()
    command("compare", "--history", "runs.jsonl", "--add", "a2a-results")
    added = json.loads((desk.path / "runs.jsonl").read_text().splitlines()[-1])
    assert [added[name] for name in ("run_id", "agent")] == [lines[1][name] for name in ("run_id", "agent")]
    assert "Over time" in (desk.path / "page.html").read_text()
    (desk.path / "runs.jsonl").write_text("no json\n")
    desk.refused("--a2a-history-file=runs.jsonl").fnmatch_lines(["*--a2a-history-file: *runs.jsonl:1 is no run of a *"])


@pytest.mark.parametrize(
    ("tasks", "option", "note"),
    [
        ("bad ok-a ok-b", "--a2a-shard=1/2", "a shard is not added to"),
        ("bad ok-a ok-b", "-x", "this run is not added to the history: it was cut short"),
        ("ok-a refused ok-b", "--a2a-trials=1", "this run is not added to the history: it was cut short"),
    ],
)
def test_parts_of_runs_are_not_added(desk: Bench, tasks: str, option: str, note: str) -> None:
    desk.tasks(tasks)
    desk("--a2a-history-file=runs.jsonl", option).stdout.fnmatch_lines([f"a2a: {note}*"])
    added = refused("compare", "--history", "runs.jsonl", "--add", "a2a-results")
    assert "a2a-results is not added to the history: " in added or "nothing to compare with" in added
    assert not Path(desk.path / "runs.jsonl").exists()


# Values of options that pytest takes for places of tests, because it reads its command line before it knows us.


def test_a_directory_elsewhere_is_refused_before_other_tests_are_run(
    pytester: pytest.Pytester, bench: Bench, noop_url: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    suite = bench.with_options("--a2a-endpoint", noop_url, "-k", "mock and create_task_1-t0 or own")
    pytester.makeini("[pytest]\ntestpaths = tests\n")
    for folder in ("tests", "others"):
        bench.makepyfile(**{f"{folder}/test_{folder}": "def test_own():\n    pass"})
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for target in (elsewhere / "new", elsewhere):
        suite.refused("--a2a-results", target).fnmatch_lines(
            [f"ERROR: --a2a-results {target}: pytest takes*tox.ini*equals sign: --a2a-results={target}"]
        )
    suite.refused("--a2a-results", elsewhere, "--a2a-crm-data", elsewhere).fnmatch_lines(
        ["ERROR: *--a2a-results=*", "ERROR: --a2a-crm-data *--a2a-crm-data=*"]
    )
    for _ in range(2):
        suite(f"--a2a-results={elsewhere / 'new'}").assert_outcomes(failed=1, passed=1)
    assert len(list((elsewhere / "new" / "trials").glob("*.json"))) == 1
    # A named ini file decides which tests there are.
    suite("-c", "tox.ini", "--a2a-results", elsewhere).assert_outcomes(failed=1, passed=1)


# ``--a2a-live``: a run is shown while it goes on, from whichever process.


TALK = """
import pytest

@pytest.mark.a2a_scenario("Good morning", "Where is it?")
def test_talk(trial):
    assert trial.said("fine")
"""


class Asked:
    """An agent that looks at the run from outside when it is asked for the second time."""

    def __init__(self, results: Path) -> None:
        self.seen: list[dict[str, Any]] = []
        self._watched = Watched(results)
        self._count = 0

    def __call__(self, request: Request) -> bytes:
        self._count += b"SendMessage" in request.body
        if self._count == 2:
            message = self._watched.look()
            self.seen += [message, *(self._watched.look(now["id"])["talk"] for now in message["now"])]
        return fine(request)


def test_a_conversation_can_be_watched_while_it_is_held(bench: Bench) -> None:
    bench.makepyfile(TALK)
    asked = Asked(bench.path / "a2a-results")
    with raw_agent(asked) as agent:
        result = bench(f"--a2a-endpoint={agent.url}", "-q", "--a2a-live")
    result.assert_outcomes(passed=1)
    status, talk = asked.seen
    assert status["running"]
    said = [(turn["role"], turn["text"]) for turn in talk["turns"]]
    assert said == [("user", "Good morning"), ("agent", "fine"), ("user", "Where is it?")]
    result.stdout.fnmatch_lines(["a2a: http://127.0.0.1:* shows this run"])
    # Nothing of it stays.
    assert not (bench.path / "a2a-results" / "live").exists()


def test_a_run_that_holds_nothing_leaves_another_runs_conversations(bench: Bench) -> None:
    bench.makepyfile("def test_other(): pass")
    directory = bench.path / "a2a-results"
    held = lock.take(directory, "pytest")
    conversation = Growing(directory, TrialKey.parse("made/even/1#0"), "run")
    bench("--a2a-live").assert_outcomes(passed=1)
    assert len(list((directory / "live").iterdir())) == 1
    conversation.end()
    held.release()


def test_a_taken_port_and_a_path_in_its_place_are_usage_errors(desk: Bench, noop_url: str) -> None:
    taken = noop_url.rstrip("/").rpartition(":")[2]
    desk.refused("--a2a-live", taken).fnmatch_lines([f"*--a2a-live {taken}: cannot listen there: *"])
    desk.refused("--a2a-live", "test_desk.py").fnmatch_lines(["*--a2a-live: 'test_desk.py' is no port*before a path*"])


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_wait_for_the_page_after_the_summary(bench: Bench, number: signal.Signals) -> None:
    bench.makepyfile(TALK)
    # Longer than is waited for the process: only the signal ends the wait.
    bench.makeconftest("from pytest_a2a_bench.plugin import publishing\npublishing._LAST_LOOK = 600.0")
    go_on = threading.Event()

    def answer(request: Request) -> bytes:
        if b"Where is it" in request.body:
            go_on.wait(240)
        return fine(request)

    with raw_agent(answer) as agent, bench.popen(f"--a2a-endpoint={agent.url}", "--a2a-live") as process:
        assert process.stdout is not None
        url = next(line for line in process.stdout if b" shows this run" in line).split()[1].decode()
        assert _status(url)["running"]
        go_on.set()
        while _status(url, "&wait=1")["running"]:
            pass
        # The report is not asked for.
        process.send_signal(number)
        said = process.communicate(timeout=240)[0].decode()
        assert process.returncode == 0
    assert "a2a benchmark summary" in said
    assert "1 passed" in said
    assert "Traceback" not in said


def _status(url: str, query: str = "") -> dict[str, Any]:
    with urlopen(f"{url}status?page=test{query}") as answer:
        return dict(json.load(answer))


def test_damaged_results_are_held_again_and_said(desk: Bench) -> None:
    desk.tasks("ok-a ok-b ok-c ok-d ok-e ok-f")
    desk().assert_outcomes(passed=6)
    *paths, whole = sorted((desk.path / "a2a-results" / "trials").iterdir())
    data = json.loads(paths[0].read_text())
    data["reward_info"]["value"] = float("nan")
    damages = (*DAMAGES.values(), json.dumps(data).encode(), whole.read_bytes())
    for path, damage in zip(paths, damages, strict=True):
        path.write_bytes(damage)
    result = desk("--a2a-resume")
    result.assert_outcomes(passed=6)
    said = f"run again, because what was stored cannot be read: 5 of 6 trials (*{paths[0].name}*)"
    result.stdout.fnmatch_lines([said])
    assert log_of(desk)[6:] == ["ok-a", "ok-b", "ok-c", "ok-d", "ok-e"]


def test_a_misspelt_option_is_named_with_the_nearest(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess(
        "--a2a-endpont=http://127.0.0.1:9", "--a2a-max-step", "4", "--a2a-max-steps=3"
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "ERROR: --a2a-endpont: there is no such option; did you mean --a2a-endpoint[?]",
            "ERROR: --a2a-max-step: there is no such option; did you mean --a2a-set max-steps=VALUE[?]",
            "ERROR: --a2a-max-steps: there is no such option; did you mean --a2a-set max-steps=VALUE[?]",
        ]
    )
