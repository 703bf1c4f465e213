import copy
import json
import logging
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_a2a_bench.a2a.config import AuthParts, ClientConfig, Credentials
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.redact import (
    KNOWN,
    KnownSecret,
    KnownSecrets,
    Secret,
    SecretUrl,
    in_environment,
    in_url,
    is_telling,
)

TOKEN = "t0ken-of-nobody"
URL = "https://host/agent?key=k3y-of-nobody&v=1"


@pytest.fixture
def known() -> Iterator[KnownSecrets]:
    forget = KNOWN.remember([KnownSecret("TOKEN", TOKEN)])
    yield KNOWN
    forget()


def test_a_secret_shows_itself_only_when_asked() -> None:
    secret = Secret(TOKEN)
    assert secret.reveal() == TOKEN
    assert TOKEN not in f"{secret} {secret!r} {secret!s} {secret:>40} {[secret]} {vars(Credentials)}"
    assert secret == Secret(TOKEN) != Secret("other")
    assert secret != TOKEN
    assert len({secret, Secret(TOKEN)}) == 1
    assert copy.deepcopy(secret) is secret
    assert not Secret("")
    with pytest.raises(TypeError, match="reveal"):
        pickle.dumps(secret)
    with pytest.raises(TypeError):
        json.dumps(secret)


def test_nothing_that_holds_credentials_shows_them() -> None:
    config = ClientConfig(URL, auth=Credentials(TOKEN, "VAR"))
    parts = AuthParts({"Authorization": f"Bearer {TOKEN}"}, {"key": TOKEN})
    shown = f"{config!r} {config} {Settings(endpoint=URL)!r} {parts!r} {parts.headers} {SecretUrl(URL)!r}"
    assert TOKEN not in shown
    assert "k3y" not in shown
    assert "'https://host/agent?...'" in shown
    assert pickle.loads(pickle.dumps(Settings(endpoint=URL))).endpoint == URL  # a worker needs it
    assert repr(SecretUrl("builtin:noop?reply=task")) == "'builtin:noop?reply=task'"


def test_secrets_are_found_in_the_environment() -> None:
    environ = {
        "OPENAI_API_KEY": "sk-1234567890",
        "WATSONX_APIKEY": "watson-key-1",
        "AWS_SECRET_ACCESS_KEY": "aws/secret+1",
        "AWS_BEARER_TOKEN_BEDROCK": "bedrock-token-1",
        "SALESFORCE_CONSUMER_KEY": "consumer-key-1",
        "MINE": "me:pass-word-1",
        "https_proxy": "http://me:proxy%2Fpass1@proxy:80",
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20otel-token-1,x=y",
        "HOME": "/home/somebody",
        "SOME_TOKEN_FILE": "/run/secrets/token",
    }
    found = {(s.kind, s.text) for s in in_environment(environ, "MINE")}
    assert found >= {(n, environ[n]) for n in list(environ)[:6]}
    assert ("MINE", "pass-word-1") in found
    assert {("https_proxy", "proxy%2Fpass1"), ("https_proxy", "proxy/pass1")} <= found
    assert ("OTEL_EXPORTER_OTLP_HEADERS", "otel-token-1") in found
    assert not {kind for kind, _ in found} & {"HOME", "SOME_TOKEN_FILE"}


def test_secrets_are_found_in_urls() -> None:
    url = (
        "https://me:p%40ssword1@h/a?api-version=2026-01-01-preview&api_key=a%2Bb+c123&page=contents&x=0123456789abcdef0"
    )
    texts = {s.text for s in in_url("it", url)}
    assert {"p%40ssword1", "p@ssword1", "a%2Bb+c123", "a+b+c123", "a+b c123", "0123456789abcdef0"} <= texts
    assert "contents" not in texts
    assert not list(in_url("it", "builtin:noop?key=abcdefgh1"))
    assert not list(in_url("it", None))


def test_only_a_distinctive_secret_is_hidden() -> None:
    common = ["", "test", "s3cret7", "12345678", "2026.11.22", "password", "infrastructure_error"]
    distinctive = ["s3cret78", "correct horse", "Password", "a" * 21, "1" * 21 + "2"]
    assert [text for text in (*common, *distinctive) if is_telling(text)] == distinctive


def test_secrets_are_hidden_as_often_as_they_are_remembered() -> None:
    known = KnownSecrets()
    first, second = (known.remember([KnownSecret("A", TOKEN)]) for _ in range(2))
    first()
    first()
    assert known.hide(TOKEN) == "***"
    second()
    assert known.hide(TOKEN) == TOKEN


def test_a_key_of_many_lines_is_hidden_line_by_line() -> None:
    known = KnownSecrets()
    lines = [
        "-----BEGIN PRIVATE KEY-----",
        "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC",
        "Zm9vYmFyYmF6cXV4MTIz",
        "-----END PRIVATE KEY-----",
    ]
    known.remember([KnownSecret("--a2a-set", "client-key=\n".join(lines))])
    assert not [line for line in lines if line in known.hide(json.dumps("\n".join(lines)))]
    assert lines[1] not in known.hide(f"one line: {lines[1]}")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(
    json_values, st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=30).filter(is_telling)
)
def test_json_with_secrets_keeps_its_form(value: object, secret: str) -> None:
    known = KnownSecrets()
    forget = known.remember([KnownSecret("A", secret)])
    hidden = known.hide_in({"a": [value, f"x {secret} y", {secret: secret}], "n": 1.5})
    forget()
    assert hidden["a"][1:] == ["x *** y", {"***": "***"}]
    assert hidden["n"] == 1.5


def test_no_log_record_holds_a_secret(known: KnownSecrets, caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("somebody.elses")
    try:
        raise ValueError(f"with {TOKEN}")
    except ValueError:
        logger.exception("sent %r", {"token": TOKEN})
    logger.warning("plain %s", "argument")
    said = logging.Formatter().format(caplog.records[-2])
    assert "sent {'token': '***'}" in said
    assert "ValueError: with ***" in said
    assert TOKEN not in said + repr(vars(caplog.records[-2]))
    assert caplog.records[-1].args == ("argument",)


def test_a_record_whose_arguments_do_not_fit_is_as_wrong_as_it_was(known: KnownSecrets) -> None:
    record = logging.getLogRecordFactory()("x", logging.INFO, "x.py", 1, "%s %s", (TOKEN,), None)
    assert record.args == ("***",)
    with pytest.raises(TypeError):
        record.getMessage()


def test_a_leaked_secret_is_named(known: KnownSecrets) -> None:
    assert known.kinds_in("nothing", "") == ()
    assert known.kinds_in("x", f"Bearer {TOKEN}") == ("TOKEN",)
    assert known.kinds_in(f"Bearer {TOKEN}", sent=["x", f"Use {TOKEN}."]) == ()
    assert known.kinds_in(f"Bearer {TOKEN}", sent=["x", ""]) == ("TOKEN",)


def test_a_library_may_put_its_own_log_records_around_ours() -> None:
    before = logging.getLogRecordFactory()
    try:
        for _ in range(3):
            forget = KNOWN.remember([KnownSecret("a token", "hunter2-hunter2")])
            inner = logging.getLogRecordFactory()

            def theirs(*given: Any, make: Any = inner, **named: Any) -> logging.LogRecord:
                record: logging.LogRecord = make(*given, **named)
                return record

            logging.setLogRecordFactory(theirs)
            forget()
        forget = KNOWN.remember([KnownSecret("a token", "hunter2-hunter2")])
        record = logging.getLogRecordFactory()("n", logging.INFO, "f", 1, "it is %s", ("hunter2-hunter2",), None)
        assert "hunter2" not in record.getMessage()
        forget()
    finally:
        logging.setLogRecordFactory(before)
