"""What settings and environment say about certificates and proxies, and what is wrong with it."""

import dataclasses
import ssl
import string
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from one_test import in_one_test
from private_network import Place

from pytest_a2a_bench.a2a.config import ClientConfig, connection_problems
from pytest_a2a_bench.a2a.network import Network
from pytest_a2a_bench.a2a.transport import explain
from pytest_a2a_bench.config.load import CORE
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import ConfigurationError

PROXY = "http://proxy.internal:3128"


def network_of(environ: dict[str, str] | None = None, **settings: Any) -> Network:
    return Network.from_settings(Settings(**settings), environ or {})


def problem_of(environ: dict[str, str] | None = None, **settings: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        network_of(environ, **settings)
    return str(caught.value)


# -- proxies --


@in_one_test(
    ("environ", "url", "proxy"),
    [
        ({}, "https://agent.example", None),
        ({"HTTPS_PROXY": PROXY}, "https://agent.example", PROXY),
        ({"HTTPS_PROXY": PROXY}, "http://agent.example", None),
        ({"https_proxy": PROXY, "HTTPS_PROXY": "http://other"}, "https://agent.example", PROXY),
        ({"HTTP_PROXY": PROXY}, "http://agent.example", PROXY),
        ({"HTTP_PROXY": PROXY, "REQUEST_METHOD": "GET"}, "http://agent.example", None),
        ({"ALL_PROXY": PROXY}, "https://agent.example", PROXY),
        ({"ALL_PROXY": "http://other", "HTTPS_PROXY": PROXY}, "https://agent.example", PROXY),
        ({"HTTPS_PROXY": "proxy.internal:3128"}, "https://agent.example", PROXY),
        ({"HTTPS_PROXY": " "}, "https://agent.example", None),
        ({"HTTPS_PROXY": "gopher"}, "https://agent.example", "http://gopher"),
    ],
)
def test_the_environment_names_proxies(environ: dict[str, str], url: str, proxy: str | None) -> None:
    assert network_of(environ).proxy_for(url) == proxy
    assert network_of(environ, proxy="none").proxy_for(url) is None
    assert network_of(environ, proxy="http://mine:1").proxy_for(url) == "http://mine:1"


@in_one_test("host", ["localhost", "LOCALHOST", "agent.localhost", "127.0.0.1", "127.8.9.10", "[::1]", "localhost."])
@in_one_test("scheme", ["http", "https"])
def test_this_machine_is_never_called_through_a_proxy(host: str, scheme: str) -> None:
    everything = {"HTTP_PROXY": PROXY, "HTTPS_PROXY": PROXY, "ALL_PROXY": PROXY}
    assert network_of(everything).proxy_for(f"{scheme}://{host}:8080/rpc") is None
    assert network_of(proxy=PROXY).proxy_for(f"{scheme}://{host}:8080/rpc") is None


@in_one_test(
    ("no_proxy", "host", "direct"),
    [
        ("agent.example", "agent.example", True),
        ("agent.example", "my.agent.example", True),
        ("agent.example", "myagent.example", False),
        (".example", "agent.example", True),
        ("*", "agent.example", True),
        ("other, agent.example", "agent.example", True),
        ("agent.example:8443", "agent.example:8443", True),
        ("agent.example:8443", "agent.example:9443", False),
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "11.1.2.3", False),
        ("10.0.0.0/8", "agent.example", False),
        ("fd00::/8", "[fd00::1]", True),
        ("fd00::1", "[fd00::1]:8443", True),
        ("[fd00::1]:1", "[fd00::1]:8443", False),
        (",,", "agent.example", False),
        ("10.0.0.0/99, host:port, [", "agent.example", False),
    ],
)
def test_hosts_are_excepted_from_proxies(no_proxy: str, host: str, direct: bool) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        network = network_of({"HTTPS_PROXY": PROXY, name: no_proxy})
        assert (network.proxy_for(f"https://{host}/rpc") is None) == direct
    assert (network_of({"NO_PROXY": no_proxy}, proxy=PROXY).proxy_for(f"https://{host}/rpc") is None) == direct


@given(st.text(string.printable, max_size=60), st.text(string.ascii_letters + string.digits + ".-:[]%", max_size=30))
def test_no_exception_is_too_odd(no_proxy: str, host: str) -> None:
    network = Network(proxies=(("all", PROXY),), no_proxy=no_proxy)
    try:
        found = network.proxy_for(f"https://{host}/rpc")
    except ValueError:  # it is no URL, and is refused as such before anybody asks for its proxy
        return
    assert found in (None, PROXY)


@in_one_test("url", ["ftp://proxy:1", "http://", "http://me:s3cret-pw@proxy:99999999"])
def test_a_proxy_that_is_none_is_named_with_its_variable(url: str) -> None:
    message = problem_of({"HTTPS_PROXY": url})
    assert message.startswith("HTTPS_PROXY=")
    assert "--a2a-proxy none" in message
    assert "s3cret-pw" not in message


def test_a_socks_proxy_needs_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install 'httpx[socks]'" in problem_of(proxy="socks5://proxy:1080")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    assert network_of(proxy="socks5://proxy:1080").proxy_for("https://agent.example") == "socks5://proxy:1080"


@in_one_test(
    ("reason", "message"),
    [
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "asks for a client certificate"),
        ("TLSV1_ALERT_UNKNOWN_CA", "refuses the TLS handshake"),
        ("DECRYPTION_FAILED_OR_BAD_RECORD_MAC", ""),
        ("TLSV1_ALERT_INTERNAL_ERROR", ""),
    ],
)
def test_only_what_the_server_did_not_take_is_a_refused_connection(reason: str, message: str) -> None:
    broken = ssl.SSLError(1, reason)
    broken.reason = reason
    found = explain(broken, "https://agent.example/rpc", Network(), None)
    assert (message in found) if message else not found
    refused = httpx.ConnectError("no")
    refused.__cause__ = broken
    assert explain(refused, "https://agent.example/rpc", Network(), None)


def test_credentials_of_proxies_are_secrets() -> None:
    network = network_of({"HTTPS_PROXY": "http://me:p%40ss-word@proxy:1", "HTTP_PROXY": "http://only-a-token@proxy:1"})
    assert {"me:p%40ss-word", "p%40ss-word", "p@ss-word", "only-a-token"} <= set(network.secrets)
    assert "p%40ss" not in repr(network)


# -- authorities --


def test_files_that_cannot_be_read_are_reported_together(place: Place, tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("nothing here")
    message = problem_of(
        {"HTTPS_PROXY": "ftp://x"}, ca=str(tmp_path / "empty.pem"), client_cert=str(tmp_path / "none.pem")
    )
    assert f"--a2a-ca {tmp_path / 'empty.pem'}: there is no certificate in it" in message
    assert f"--a2a-client-cert {tmp_path / 'none.pem'}: cannot be read: No such file or directory" in message
    assert "HTTPS_PROXY=ftp://x" in message
    assert "there is no certificate" in problem_of(ca=str(place.key))
    assert "cannot be read: Is a directory" in problem_of(ca=str(tmp_path))
    lines = place.ca.read_text().splitlines()
    (tmp_path / "damaged.pem").write_text("\n".join([lines[0], lines[1][:-9], *lines[2:]]))
    assert "a certificate in it cannot be read" in problem_of(ca=str(tmp_path / "damaged.pem"))


def test_bundles_of_the_environment_must_be_there(place: Place, tmp_path: Path) -> None:
    assert "SSL_CERT_FILE=" in problem_of({"SSL_CERT_FILE": str(tmp_path / "none.pem")})
    assert "SSL_CERT_DIR=" in problem_of({"SSL_CERT_DIR": str(tmp_path / "none")})
    assert network_of({"SSL_CERT_FILE": str(place.ca)}).ca_file == str(place.ca)
    assert network_of({"SSL_CERT_DIR": f"/nowhere-at-all:{tmp_path}"}).ca_dir.endswith(str(tmp_path))


# -- our certificate --


def test_key_and_certificate_must_fit(place: Place, tmp_path: Path) -> None:
    stranger = Place.at(tmp_path)
    cert = str(place.cert)
    assert "another certificate" in problem_of(client_cert=cert, client_key=str(stranger.key))
    assert "there is no private key in it" in problem_of(client_cert=cert)
    assert "is encrypted" in problem_of(client_cert=cert, client_key=str(place.locked))
    wrong = {"client_cert": cert, "client_key": str(place.locked), "client_passphrase_env": "PHRASE"}
    message = problem_of({"PHRASE": "not-the-right-one"}, **wrong)
    assert "the passphrase does not open the key" in message
    assert "not-the-right-one" not in message


def test_both_may_be_in_one_file(place: Place, tmp_path: Path) -> None:
    (tmp_path / "both.pem").write_text(place.key.read_text() + "a note\n" + place.cert.read_text())
    network = network_of(client_cert=str(tmp_path / "both.pem"))
    assert network.chain.startswith("-----BEGIN CERTIFICATE")
    assert network.key.startswith("-----BEGIN")
    assert "PRIVATE" not in repr(network)


def test_variables_that_are_not_set_are_named(place: Place) -> None:
    cert = str(place.cert)
    assert "names MY_KEY, which is not set" in problem_of(client_cert=cert, client_key_env="MY_KEY")
    assert "MY_KEY holds no private key" in problem_of({"MY_KEY": "hunter2"}, client_cert=cert, client_key_env="MY_KEY")
    assert "exclude each other" in problem_of(client_cert=cert, client_key="a", client_key_env="B")
    assert "add --a2a-client-cert" in problem_of(client_key="a")
    key = place.key.read_text().replace("\n", "\\n")  # as some CI systems store it
    assert network_of({"MY_KEY": key}, client_cert=cert, client_key_env="MY_KEY").key == place.key.read_text()


def test_all_that_is_wrong_with_a_connection_is_reported_together() -> None:
    settings = Settings(
        endpoint="https://x",
        auth_env="NO_TOKEN",
        oauth_client_id_env="NO_ID",
        oauth_token_url="https://x/token",
        ca="/nowhere-at-all.pem",
    )
    message = "; ".join(connection_problems(settings, {"A2A_OAUTH_CLIENT_SECRET": "s3cret"}))
    for part in ("--a2a-auth-env names NO_TOKEN", "oauth-client-id-env names NO_ID", "--a2a-ca /nowhere"):
        assert part in message
    replayed = dataclasses.replace(settings, replay="cassettes")
    assert ClientConfig.from_settings(replayed, {}).network == Network()

    # Half an OAuth client.
    (message,) = connection_problems(Settings(), {"A2A_OAUTH_CLIENT_ID": "me"})
    assert "A2A_OAUTH_CLIENT_SECRET, which is not set" in message
    config = ClientConfig.from_settings(
        Settings(endpoint="http://x"), {"A2A_OAUTH_CLIENT_ID": "me", "A2A_OAUTH_CLIENT_SECRET": "s3cret-one"}
    )
    assert "s3cret-one" not in repr(config)
    assert "s3cret-one" in config.secrets


@in_one_test("name", ["ca", "client_cert", "client_key"])
def test_a_key_in_place_of_a_file_is_not_repeated(name: str, place: Place) -> None:
    option = CORE[name]
    with pytest.raises(ValueError, match="not the name of a file") as caught:
        option.read(place.key.read_text())
    assert "BEGIN" not in str(caught.value)


@in_one_test("name", ["proxy", "oauth_token_url"])
def test_urls_with_credentials_are_refused_and_not_repeated(name: str) -> None:
    option = CORE[name]
    assert option.read("http://host:1") == "http://host:1"
    for wrong in ("http://me:s3cret@host", "ftp://host", "http://", "host:1", "http://host:port", "http://a b"):
        with pytest.raises(ValueError, match="URL") as caught:
            option.read(wrong)
        assert "s3cret" not in str(caught.value)
