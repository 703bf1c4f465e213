"""``reply-limits`` and ``env-file`` on the command line: refused in one line, or in force."""

from __future__ import annotations

import os

import pytest
from harness import Bench, log_of
from raw_agent import Request, raw_agent, rpc


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        ("--a2a-set=reply-limits=calls=none", "--a2a-set reply-limits: 'none' is not a number*"),
        (
            "--a2a-set=reply-limits=rows=3",
            "--a2a-set reply-limits: 'rows' is no limit of a reply; the limits are calls, *",
        ),
        ("--a2a-set=env-file=absent.env", "--a2a-set env-file=*absent.env: No such file or directory"),
        (
            "--a2a-set=env-file=wrong.env",
            "--a2a-set env-file=*wrong.env, line 2: expected NAME=VALUE, as OPENAI_API_KEY=...",
        ),
    ],
)
def test_wrong_values_are_usage_errors(pytester: pytest.Pytester, desk: Bench, option: str, complaint: str) -> None:
    (pytester.path / "wrong.env").write_text("A=b\nsk-secret\n")
    result = desk(option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {complaint}"])
    assert "sk-secret" not in result.stderr.str() + result.stdout.str()
    assert log_of(pytester) == []


@pytest.mark.parametrize("workers", [[], pytest.param(["-n1"], marks=pytest.mark.slow)], ids=["alone", "xdist"])
def test_variables_of_the_file_are_there_for_the_run(
    pytester: pytest.Pytester, desk: Bench, monkeypatch: pytest.MonkeyPatch, workers: list[str]
) -> None:
    monkeypatch.setenv("DESK_TASKS", "ok")
    monkeypatch.setenv("A2A_CANARY_KEPT", "mine")
    pytester.makefile(".env", canary="export A2A_CANARY_KEY='sung'\nA2A_CANARY_KEPT=theirs\n")
    pytester.makepyfile(
        test_variables="""
            import os

            def test_variables():
                assert (os.environ["A2A_CANARY_KEY"], os.environ["A2A_CANARY_KEPT"]) == ("sung", "mine")
        """
    )
    desk("--a2a-set=env-file=canary.env", *workers).assert_outcomes(passed=2)
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
@pytest.mark.parametrize("workers", [[], pytest.param(["-n1"], marks=pytest.mark.slow)], ids=["alone", "xdist"])
def test_the_agents_token_may_come_from_the_file_and_is_hidden(
    pytester: pytest.Pytester, bench: Bench, workers: list[str], name: str
) -> None:
    def repeat(request: Request) -> bytes:
        said = request.headers.get("authorization", "none")
        parts = [{"kind": "text", "text": f"you sent {said}"}]
        return rpc({"kind": "message", "role": "agent", "messageId": "m", "parts": parts}, request)

    pytester.makefile(".env", song=f"{name}={TOKEN}\n")
    pytester.makepyfile(test_asks=ASKS)
    named = [] if name == "A2A_AUTH_TOKEN" else [f"--a2a-auth-env={name}"]
    with raw_agent(repeat) as agent:
        agent.card["securitySchemes"] = {"s": {"type": "http", "scheme": "bearer"}}
        agent.card["security"] = [{"s": []}]
        result = bench("--a2a-endpoint", agent.url, "--a2a-set=env-file=song.env", "test_asks.py", *named, *workers)
    result.assert_outcomes(failed=2)
    assert {m.headers["authorization"] for m in agent.messages} == {f"Bearer {TOKEN}"}
    shown = result.stdout.str() + result.stderr.str()
    assert "you sent Bearer ***" in shown
    assert TOKEN not in shown


def test_a_token_that_neither_has_is_a_usage_error(pytester: pytest.Pytester, bench: Bench) -> None:
    pytester.makefile(".env", song="OTHER=x\n")
    result = bench(
        "--a2a-endpoint=http://127.0.0.1:9", "--a2a-set=env-file=song.env", "--a2a-auth-env=SONGBIRD", "-k=mock"
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *--a2a-auth-env*SONGBIRD*not set*"])
