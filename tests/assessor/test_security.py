"""What a hostile caller, a hostile agent and a careless operator get: refused, and no secret of anybody's."""

import asyncio
import base64
import dataclasses
import json
from argparse import ArgumentParser
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import commands
import httpx
import pytest
from assessor_server import LOCAL, Caller, call, gen3, planned, saying, served, wait_for_end
from one_test import in_one_test
from raw_agent import raw_agent, response
from starlette.responses import JSONResponse

from pytest_a2a_bench.a2a.network import Guard
from pytest_a2a_bench.agents.gateway import MAX_BODY, called_by_name
from pytest_a2a_bench.assessor import terms
from pytest_a2a_bench.assessor.request import BadRequest
from pytest_a2a_bench.assessor.terms import Callers, Terms
from pytest_a2a_bench.cli import assess
from pytest_a2a_bench.cli._settings import load_settings
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.redact import KNOWN

MISTAKE = "sk-mistake-91d7c5b3a1f20846"
ADA, BOB, BOSS = "ada-7c1e5f6b2d9a4830", "bob-99d0b3c4a1e2f756", "boss-0123456789abcdef"


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    """Let no test's tokens be secrets of another."""
    forget = KNOWN.remember([])
    yield
    forget()


def terms_of(*arguments: str) -> Terms:
    """Return what the command serves by, with these arguments."""
    parser = ArgumentParser()
    assess.configure(parser)
    namespace = parser.parse_args(arguments)
    return assess._terms(namespace, load_settings(namespace).settings)


# --- who may call -----------------------------------------------------------------------------------------------------


def test_tokens_are_read_with_their_callers() -> None:
    found = terms.read_tokens(f"# ours\nada={ADA}\n\n{BOB},carl=carl-0123456789abcdef==\n", "here")
    assert (found[0].name, found[0].token) == ("ada", ADA)
    assert found[1].name.startswith("caller-")
    assert (found[2].name, found[2].token) == ("carl", "carl-0123456789abcdef==")
    assert ADA not in repr(found)


@in_one_test(
    ("text", "received"),
    [
        ("", "no token"),
        ("ada=short", "entry 1"),
        (f"a={ADA}\nb={ADA}", "entry 2 has a token that another"),
        ("\n#x", "no"),
    ],
)
def test_tokens_that_are_none_are_refused_without_being_shown(text: str, received: str) -> None:
    with pytest.raises(ConfigurationError, match=received) as caught:
        terms.read_tokens(text, "here")
    assert "short" not in str(caught.value)


def test_a_line_that_is_taken_out_is_revoked(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"ada={ADA}\nbob={BOB}\n")
    known = Callers.of(file, "MORE", {"MORE": "carl=carl-0123456789abcdef"})
    assert known is not None
    assert known.who(f"Bearer {ADA}") == "ada"
    assert known.who(f"Basic {base64.b64encode(f'x:{BOB}'.encode()).decode()}") == "bob"
    assert known.who("Bearer carl-0123456789abcdef") == "carl"
    for wrong in ("", ADA, f"Bearer {ADA}x", "Bearer ", "Basic ???", "Bearer \xe4\xf6", f"Digest {ADA}"):
        assert known.who(wrong) is None
    file.write_text(f"bob={BOB}\n")
    assert (known.who(f"Bearer {ADA}"), known.who(f"Bearer {BOB}")) == (None, "bob")
    file.write_text("")
    assert known.who(f"Bearer {BOB}") is None
    file.unlink()
    assert known.who("Bearer carl-0123456789abcdef") == "carl"


def test_callers_see_their_own_assessments_only(tmp_path: Path, oracle_url: str) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"ada={ADA}\nbob={BOB}\nboss={BOSS}\n")
    results = tmp_path / "results"
    with served(Terms(results, guard=LOCAL, operators=("boss",)), Callers(file)) as url:
        for path in ("", "metrics", "rest/tasks"):
            refused = httpx.get(url + path)
            # A line for each scheme: Chromium asks for no password where both are in one.
            assert refused.headers.get_list("www-authenticate") == ["Bearer", 'Basic realm="assessor"']
            assert refused.status_code == 401
        assert httpx.post(url, json={}).status_code == 401
        assert httpx.get(f"{url}healthz").json() == {"status": "ok"}
        assert httpx.get(f"{url}readyz").json() == {"status": "ok"}
        card = httpx.get(f"{url}.well-known/agent-card.json").json()
        assert "bearer" in card["securitySchemes"]
        received = Caller(url, ADA).ask(gen3(oracle_url, domain="mock", num_tasks=1, tag_trials=True))
        assert received.state == "completed"
        assert Caller(url, ADA).get(received.task).result["score"] == 1
        with pytest.raises(Exception, match="not found"):
            Caller(url, BOB).get(received.task)
        with pytest.raises(Exception, match="not found"):
            Caller(url, BOB).cancel(received.task)
        assert httpx.get(f"{url}metrics", headers={"Authorization": f"Bearer {BOB}"}).status_code == 200
        # Everybody sees their own on the page, and reports are for operators.
        wait_for_end(results, received)
        report = f"assessments/{received.task}"
        ada, bob, boss = (httpx.get(url, auth=("me", token)).text for token in (ADA, BOB, BOSS))
        assert ("mock: 1 of 1 trial passed" in ada, "mock" in bob) == (True, False)
        assert (report in ada, report in boss) == (False, True)
        codes = [httpx.get(url + report, auth=("me", token)).status_code for token in (ADA, BOB, BOSS)]
        assert codes == [404, 404, 200]
    assert json.loads((results / received.task / "assessment.json").read_text())["caller"] == "ada"


@in_one_test(
    ("arguments", "received"),
    [
        (["--host", "0.0.0.0"], "give tokens with --auth-file or --auth-env"),
        (["--auth-env", "NOT_SET_ANYWHERE"], "NOT_SET_ANYWHERE, which is not set"),
        (["--auth-file", "nowhere"], "--auth-file nowhere: cannot be read: No such file or directory"),
        (["--auth-env", "X", "--no-auth"], "--no-auth contradicts"),
        (["--allow-cidr", "localhost"], "is no range of addresses"),
        (
            ["--set", "max-steps=0", "--max-trials", "0", "--port", "99999"],
            "--set max-steps: '0' is not a whole number of at least 1\n"
            "a2a-bench: --max-trials is 0; give a number above 0\na2a-bench: --port is 99999",
        ),
        (["--card-url", "x"], "--card-url is 'x'"),
        (["--card-url", "http://[x/"], "--card-url is 'http://[x/'"),
        (["--card-url", "https://bench.test/"], "--card-url https://bench.test/ can be reached from other machines"),
        (["--set", "mcp-bind=0.0.0.0:80"], "listens on 0.0.0.0:80, which is no address to call; give its URL too"),
        *(
            (["--agent-token", f"PURPLE_TOKEN{origin}"], "expected PURPLE_TOKEN=https://HOST:PORT")
            for origin in ("", "=ftp://x", "=https://x/path")
        ),
        (["--agent-token", "UNSET_TOKEN=https://x"], "names UNSET_TOKEN, which is not set"),
        (["--agent-token", f"{MISTAKE}!=https://x"], "expected NAME=ORIGIN"),
    ],
)
def test_an_operators_mistakes_have_a_line_each(
    arguments: list[str], received: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PURPLE_TOKEN", "canary-agent-2f7c9b1e5d3a8640")
    said = commands.refused("assess", "--results", tmp_path / "r", *arguments, lines=received.count("\n") + 1)
    assert received in said
    assert MISTAKE not in said


def test_an_assessor_reads_the_settings_as_pytest_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A2A_TIMEOUT", "20")
    (tmp_path / "pyproject.toml").write_text("[tool.a2a-bench]\nconcurrency = 3\nmax-steps = 50\n")
    monkeypatch.chdir(tmp_path)
    text = refused(terms_of("--set", "max-steps=7"), domain="mini", concurrency=4, max_turns=8, timeout=21)
    assert "concurrency is 4; this assessor allows at most 3" in text
    assert "max_turns is 8; this assessor allows at most 7" in text
    assert "timeout is 21; this assessor allows at most 20" in text


def test_an_operators_offers_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PURPLE_TOKEN", MISTAKE)
    terms = terms_of("--agent-token", "PURPLE_TOKEN=https://purple.test", "--allow-retrieval", "bm25")
    assert (terms.agent_tokens, terms.retrievals) == ({"PURPLE_TOKEN": "https://purple.test"}, ("bm25",))
    assert MISTAKE not in repr(terms)


@in_one_test(
    ("arguments", "is_private", "reaches_loopback"),
    [
        ([], True, True),
        (["--card-url", "http://localhost:9009/"], True, True),
        (["--auth-env", "X"], False, True),
        (["--no-auth", "--card-url", "https://bench.test/"], False, False),
        (["--no-auth", "--host", "0.0.0.0"], False, False),
    ],
)
def test_a_public_server_is_not_private(arguments: list[str], is_private: bool, reaches_loopback: bool) -> None:
    terms = terms_of(*arguments)
    assert terms.is_private == is_private
    assert terms.guard is not None
    assert terms.guard.allows(IPv4Address("127.0.0.1")) == reaches_loopback


def test_without_tokens_no_page_of_another_site_gets_in(tmp_path: Path) -> None:
    with served(Terms(tmp_path / "results")) as url, httpx.Client(base_url=url) as client:
        port = client.base_url.port
        for host in ("bench.test", f"bench.test:{port}", "127.0.0.1.bench.test", "[", ""):
            assert client.get("/metrics", headers={"Host": host}).status_code == 421, host
            assert client.get("/healthz", headers={"Host": host}).status_code == 200, host
        for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}"):
            assert client.get("/metrics", headers={"Host": host}).status_code == 200, host
        for origin in ("https://bench.test", "null", "http://127.0.0.1.bench.test", "http://["):
            assert client.post("/", content=b"{}", headers={"Origin": origin}).status_code == 403, origin
        for headers in ({}, {"Origin": f"http://localhost:{port}"}):
            assert client.post("/", content=b"{}", headers=headers).status_code == 200


def test_without_tokens_it_may_be_called_as_its_card_says() -> None:
    async def ask(host: str) -> int:
        app = called_by_name(JSONResponse({}), "https://bench.test/")
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as client:
            origin = f"https://{host}"
            return (await client.post("http://x/", headers={"Host": f"{host}:80", "Origin": origin})).status_code

    assert [asyncio.run(ask(host)) for host in ("bench.test", "other.test")] == [200, 421]


# --- what may be asked for --------------------------------------------------------------------------------------------


def refused(terms: Terms, **config: Any) -> str:
    with pytest.raises(BadRequest) as caught:
        planned(terms, **config)
    return str(caught.value)


def test_limits_are_told_together(tmp_path: Path) -> None:
    terms = Terms(
        tmp_path, max_tasks=2, models=("openai/small",), settings=Settings(max_steps=50, concurrency=2, timeout=10)
    )
    found = refused(terms, domain="mock", max_steps=60, concurrency=3, timeout=11, user_llm="openai/big", split="moon")
    for text in ("max_steps is 60", "concurrency is 3", "timeout is 11", "offers openai/small", "split is 'moon'"):
        assert text in found
    assert "at most 2 are run" in refused(terms, domain="mock")
    assert "no built-in agents" in refused(terms, domain="mock", num_tasks=1, agent="builtin:oracle")
    with_builtin = dataclasses.replace(terms, builtin=True)
    for agent in ("builtin:llm", "builtin:oracle?players={}", "builtin:echo"):
        assert "is not offered" in refused(with_builtin, domain="mock", num_tasks=1, agent=agent)
    assert "on an agent with a URL" in refused(terms, domain="conformance", agent="builtin:oracle")
    assert "mock has no task 'x'" in refused(terms, domain="mock", task_ids=["x"])
    assert "task_category names 'x'" in refused(terms, domain="mini", task_category=["x"])
    assert "CRMArena's" in refused(terms, domain="b2b")


def test_turns_with_an_org_are_steps_too(tmp_path: Path) -> None:
    found = refused(
        Terms(tmp_path, settings=Settings(max_steps=8)), domain="mini", num_tasks=1, max_turns=9, max_user_turns=10
    )
    for text in ("max_turns is 9; this assessor allows at most 8", "max_user_turns is 10; this assessor allows"):
        assert text in found
    for most, turns in ((8, (8, 8)), (15, (15, 10)), (200, (20, 10))):
        made = planned(Terms(tmp_path, settings=Settings(max_steps=most)), domain="mini", num_tasks=1).settings
        options = made.benchmark_options
        assert (options["crm_max_turns"], options["crm_max_user_turns"]) == turns


def test_there_is_no_shard_without_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terms = Terms(tmp_path)
    asked: dict[str, Any] = {"domain": "mock", "task_ids": ["create_task_1"], "num_trials": 2}
    for index in range(2):
        made = planned(terms, **asked, num_shards=2, shard_index=index)
        assert (len(made.keys), made.is_protocol) == (1, False)
    # So many parts are refused, and not counted out first.
    monkeypatch.setattr("pytest_a2a_bench.results.manifest.members", pytest.fail)
    for number in (3, 1000):
        found = refused(terms, **asked, num_shards=number, shard_index=number - 1)
        assert f"num_shards is {number}, and mock has 2 trials" in found


def test_a_caller_chooses_models_but_never_their_keys(tmp_path: Path) -> None:
    terms = Terms(tmp_path, models=("openai/one", "openai/two"))
    asked: dict[str, Any] = {"user_llm": "openai/two", "user_llm_args": {"temperature": 0.0}}
    keys = {"OPENAI_API_KEY": "x"}
    made = planned(terms, environ=keys, domain="mock", num_tasks=1, **asked).settings
    assert (made.user_llm, made.user_llm_args, made.user_kind) == ("openai/two", {"temperature": 0.0}, "llm")
    assert planned(terms, environ=keys, domain="mock", num_tasks=1).settings.user_llm == "openai/one"


def test_inner_addresses_are_refused_for_agents_and_webhooks(tmp_path: Path) -> None:
    with served(Terms(tmp_path / "results", guard=Guard())) as url, raw_agent(lambda _: None) as inner:
        for domain in ("mock", "conformance"):
            received = Caller(url).ask(gen3(inner.url, domain=domain))
            assert (received.state, "not a public address" in received.text) == ("failed", True), received
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}
        config = {"taskPushNotificationConfig": {"url": f"{inner.url}/hook"}}
        answer = call(url, "SendMessage", {"message": message, "configuration": config})
        assert "push notifications is refused: 127.0.0.1 is not a public" in answer["error"]["message"]
        assert answer["error"]["message"].endswith("--allow-cidr 127.0.0.1")
        assert inner.requests == []


def test_a_card_cannot_lead_to_an_inner_address(tmp_path: Path) -> None:
    with raw_agent(lambda _: response({})) as secret, raw_agent(lambda _: None) as agent:
        place = secret.url.replace("127.0.0.1", "127.0.0.2")
        agent.card["supportedInterfaces"] = [{"url": place, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]
        agent.card["url"] = place
        with served(Terms(tmp_path / "results", guard=Guard.of(["127.0.0.1"]))) as url:
            received = Caller(url).ask(gen3(agent.url, domain="mock", num_tasks=1))
        assert received.state == "failed", received
        assert "not a public address" in received.text
        assert secret.requests == []


def test_bodies_are_bounded(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(MAX_BODY // 65536 + 2):
            yield b"x" * 65536

    with served(Terms(tmp_path / "results")) as url:
        assert httpx.post(url, content=b"x" * (MAX_BODY + 1)).status_code == 413
        assert httpx.post(url, content=pieces()).status_code == 413
        assert httpx.get(f"{url}healthz").status_code == 200


# --- secrets ----------------------------------------------------------------------------------------------------------

CANARIES = {
    "OPENAI_API_KEY": "sk-canary-8f3b1c2d4e5f60718293",
    "A2A_AUTH_TOKEN": "canary-token-5b1d9e7f3a2c4068",
    "A2A_OAUTH_CLIENT_SECRET": "canary-oauth-aa77bb66cc55dd44",
}


def test_no_secret_is_handed_to_an_agent_or_found_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator's environment is full of keys, and the agent quotes whatever it hears."""
    for name, value in CANARIES.items():
        monkeypatch.setenv(name, value)
    file = tmp_path / "tokens"
    file.write_text(f"ada={ADA}\n")
    results = tmp_path / "results"

    parrot = saying(lambda request: f"{request.headers} {request.body.decode()}"[:2000])
    with raw_agent(parrot) as agent, served(Terms(results, guard=LOCAL), Callers(file)) as url:
        caller = Caller(url, ADA)
        received = caller.ask(gen3(agent.url, domain="mock", task_ids=["create_task_1"], max_steps=10))
        metrics = httpx.get(f"{url}metrics", headers={"Authorization": f"Bearer {ADA}"}).text
        heard = "".join(f"{r.path} {r.headers} {r.body!r}" for r in agent.requests)
        assert agent.messages
    kept = b"".join(path.read_bytes() for path in results.rglob("*") if path.is_file())
    for secret in (*CANARIES.values(), ADA):
        assert secret not in heard
        assert secret not in metrics + repr(received)
        assert secret.encode() not in kept
