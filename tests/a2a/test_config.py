import subprocess
import sys

import pytest
from one_test import in_one_test

from pytest_a2a_bench.a2a.config import ClientConfig, Credentials
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.redact import redact_url


def test_all_problems_are_reported_together() -> None:
    with pytest.raises(ConfigurationError) as caught:
        ClientConfig("localhost:80", protocol="2.0", timeout=0, max_retries=-1, auth=Credentials("a\nb", "TOKEN_VAR"))
    message = str(caught.value)
    for part in (
        "'localhost:80'",
        "protocol is '2.0'; use one of auto, 1.0, 0.3",
        "timeout",
        "max_retries",
        "TOKEN_VAR",
    ):
        assert part in message


@in_one_test("endpoint", ["", "ftp://x", "http://", "http://a b", "http://x:99999", "builtin:oracle"])
def test_endpoint_must_be_a_url(endpoint: str) -> None:
    with pytest.raises(ConfigurationError, match="endpoint"):
        ClientConfig(endpoint)


def test_password_in_the_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigurationError, match="credentials do not belong in a URL") as caught:
        ClientConfig("https://me:hunter2@host/")
    assert "hunter2" not in str(caught.value)
    assert redact_url("https://me:hunter2@host/x@y") == "https://host/x@y"


@in_one_test("value", [float("nan"), float("inf"), -1.0])
def test_numbers_must_be_finite(value: float) -> None:
    with pytest.raises(ConfigurationError, match="timeout is"):
        ClientConfig("http://x", timeout=value)


def test_from_settings_reads_the_token_and_origins_from_the_environment() -> None:
    settings = Settings(endpoint="http://x", auth_env="MY_TOKEN", timeout=7, protocol="0.3", wait=3)
    environ = {"MY_TOKEN": " secret \n", "A2A_ALLOWED_ORIGINS": "https://a, https://b:1,"}
    config = ClientConfig.from_settings(settings, environ)
    assert config.auth == Credentials("secret", "MY_TOKEN")
    assert "secret" not in f"{config!r} {config} {config.auth!r}"
    assert (config.timeout, config.protocol, config.wait) == (7, "0.3", 3)
    assert config.allowed_origins == ("https://a", "https://b:1")
    assert ClientConfig.from_settings(Settings(endpoint="http://x"), {}).auth is None
    with pytest.raises(ConfigurationError, match="--a2a-auth-env names MY_TOKEN, which is not set"):
        ClientConfig.from_settings(settings, {"MY_TOKEN": " "})


def test_from_settings_wants_an_endpoint_and_a_token_that_is_one() -> None:
    with pytest.raises(ConfigurationError, match="--a2a-endpoint"):
        ClientConfig.from_settings(Settings(), {})
    # CI systems give a variable whose secret is not there as an empty text.
    assert ClientConfig.from_settings(Settings(endpoint="http://a.test"), {"A2A_AUTH_TOKEN": ""}).auth is None
    with pytest.raises(ConfigurationError, match="A2A_AUTH_TOKEN has nothing but blanks"):
        ClientConfig.from_settings(Settings(endpoint="http://a.test"), {"A2A_AUTH_TOKEN": "  "})


def test_importing_the_package_brings_nothing_heavy() -> None:
    code = (
        "import sys, pytest_a2a_bench.a2a, pytest_a2a_bench.a2a.config, pytest_a2a_bench.a2a.card\n"
        "import pytest_a2a_bench.a2a.turn\n"
        "print([m for m in ('httpx', 'a2a', 'grpc', 'google.protobuf') if m in sys.modules])\n"
        "import pytest_a2a_bench.a2a.client\n"
        "print([m for m in ('a2a', 'grpc', 'google.protobuf') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split("\n")[:2] == ["[]", "[]"]
