"""A whole run, and the commands, against an agent behind TLS with an authority of its own."""

import pytest
from commands import command
from harness import Bench
from private_network import Authority, Place, guarded_agent
from raw_agent import fine, raw_agent

TEST = """
def test_it(a2a_client):
    from pytest_a2a_bench.model import Part
    assert a2a_client.session().send([Part.of_text("hello")]).text == "fine"
"""


def test_a_run_behind_mutual_tls(bench: Bench, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", place.key.read_text())
    bench.makepyfile(TEST)
    bench.makepyprojecttoml(f"[tool.a2a-bench]\nca = '{place.ca}'\nclient-key-env = 'THE_KEY'\n")
    # The agent wants a client certificate.
    with raw_agent(fine, tls=place.server(asks=True), host="localhost") as agent:
        bench("--a2a-endpoint", agent.url, f"--a2a-client-cert={place.cert}").assert_outcomes(passed=1)
    written = [p for p in bench.path.rglob("*") if p.is_file() and p.suffix in (".json", ".jsonl")]
    assert all("PRIVATE KEY" not in p.read_text() for p in written)


def test_a_variable_that_ini_names_matters_once_the_agent_is_used(bench: Bench, noop_url: str) -> None:
    bench.makepyprojecttoml(f"[tool.a2a-bench]\nendpoint = '{noop_url}'\nauth-env = 'NOT_SET_HERE'\n")
    bench.makepyfile("def test_one(): pass")
    assert bench().ret == 0
    bench.makepyfile(test_two=TEST)
    assert "--a2a-auth-env names NOT_SET_HERE" in bench.refused().str()


def test_a_run_with_oauth(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A2A_OAUTH_CLIENT_ID", "bench")
    monkeypatch.setenv("A2A_OAUTH_CLIENT_SECRET", "s3cret-of-the-client")
    bench.makepyfile(TEST)
    authority = Authority()
    with guarded_agent(authority) as url:
        bench("--a2a-endpoint", url).assert_outcomes(passed=1)
        monkeypatch.setenv("A2A_OAUTH_CLIENT_SECRET", "another-secret-entirely")
        for message in (bench.refused("--a2a-endpoint", url).str(), command("check", url, code=2).err):
            assert "HTTP 401, saying invalid_client" in message
            assert "another-secret-entirely" not in message


def test_doctor_says_how_requests_travel(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://me:pass-word-1@proxy.internal:3128")
    monkeypatch.setenv("A2A_CA", str(place.ca))
    message = command("doctor").out
    assert "and 1 of the setting ca" in message
    assert "http://proxy.internal:3128 for " in message
    assert "pass-word-1" not in message
    assert "nowhere.pem: cannot be read" in command("doctor", "--set", "ca=nowhere.pem", code=1).out
