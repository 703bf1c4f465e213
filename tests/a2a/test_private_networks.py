"""Agents behind authorities, proxies and client certificates of one's own: real TLS servers and a real proxy."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from private_network import Place, ask, config_of, forward_proxy, grpc_card
from raw_agent import MESSAGE, fine, raw_agent, say

from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.conformance.subject import look_at
from pytest_a2a_bench.conformance.target import targets_of
from pytest_a2a_bench.errors import ConfigurationError, EndpointUnreachableError, TransportError

Open = Callable[..., AgentConnection]
LAST = "as the last resort, --a2a-set verify-ssl=off accepts any certificate"


@pytest.fixture
def opened() -> Iterator[Open]:
    found: list[AgentConnection] = []

    def open_one(endpoint: str, environ: dict[str, str] | None = None, **settings: Any) -> AgentConnection:
        found.append(AgentConnection(config_of(endpoint, environ, **settings)))
        return found[-1]

    yield open_one
    for connection in found:
        connection.close()


def refusal(connection: AgentConnection) -> str:
    with pytest.raises(EndpointUnreachableError) as caught:
        say(connection)
    return str(caught.value)


# -- authorities --


def test_an_authority_of_ones_own_is_trusted_when_it_is_named(place: Place, opened: Open) -> None:
    with raw_agent(fine, tls=place.server(), host="localhost") as agent:
        message = refusal(opened(agent.url))
        assert say(opened(agent.url, ca=str(place.ca))).text == "fine"
        assert say(opened(agent.url, {"SSL_CERT_FILE": str(place.ca)})).text == "fine"
        assert say(opened(agent.url, verify_ssl=False)).text == "fine"

    assert "the certificate of localhost is not trusted" in message
    assert message.index("--a2a-ca FILE") < message.index("--a2a-ca system") < message.index("--a2a-set verify-ssl=off")
    assert message.endswith(LAST)
    assert "is the agent running?" not in message


def test_the_named_authority_comes_beside_the_usual_ones(place: Place) -> None:
    from pytest_a2a_bench.a2a.transport import tls_context

    alone = tls_context(config_of("https://x").network).get_ca_certs(binary_form=True)
    both = tls_context(config_of("https://x", ca=str(place.ca)).network).get_ca_certs(binary_form=True)
    assert len(both) == len(alone) + 1 > 20


def test_the_trust_store_of_the_system(place: Place, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        raw_agent(fine, tls=place.server(), host="localhost") as agent,
        place.grpc_agent() as (address, _),
        raw_agent(fine, grpc_card(address)) as grpc_agent,
    ):
        assert "is not trusted" in refusal(opened(agent.url, ca="system"))
        # This is where OpenSSL, and so a system's store, is told to look.
        monkeypatch.setenv("SSL_CERT_FILE", str(place.ca))
        for url in (agent.url, grpc_agent.url):
            assert say(opened(url, dict(os.environ), ca="system", proxy="none")).text == "fine"
        with pytest.raises(ConfigurationError, match="--a2a-ca FILE"):
            say(opened(grpc_agent.url, verify_ssl=False))


@pytest.mark.parametrize(
    ("certificate", "wrong"),
    [
        (lambda place, serve: serve(place, expired=True), "the certificate of HOST has expired; renew it"),
        (lambda place, serve: serve(place, "agent.example"), "the certificate is for another host than HOST"),
    ],
)
def test_what_is_wrong_with_a_certificate_is_said(place: Place, opened: Open, certificate: Any, wrong: str) -> None:
    with raw_agent(fine, tls=certificate(place, Place.server), host="localhost") as agent:
        message = refusal(opened(agent.url, ca=str(place.ca)))
    assert wrong.replace("HOST", "localhost") in message
    assert message.endswith(LAST)
    with certificate(place, Place.grpc_agent) as (address, _), raw_agent(fine, grpc_card(address)) as agent:
        assert wrong.replace("HOST", "127.0.0.1") in refusal(opened(agent.url, ca=str(place.ca)))


def test_a_server_without_tls_says_so(opened: Open) -> None:
    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            while connection.recv(65536):
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        message = refusal(opened(f"https://127.0.0.1:{listener.getsockname()[1]}"))
        thread.join()
    assert "does not speak TLS" in message


# -- client certificates --


def test_a_server_asks_for_a_certificate(place: Place, opened: Open, tmp_path: Path) -> None:
    stranger = Place.at(tmp_path)
    shown = {"ca": str(place.ca), "client_cert": str(place.cert)}
    secret = {"MY_KEY": place.key.read_text(), "MY_PHRASE": Place.PASSPHRASE}
    with raw_agent(fine, tls=place.server(asks=True), host="localhost") as agent:
        message = refusal(opened(agent.url, ca=str(place.ca)))
        assert say(opened(agent.url, **shown, client_key=str(place.key))).text == "fine"
        assert say(opened(agent.url, secret, **shown, client_key_env="MY_KEY")).text == "fine"
        locked = {"client_key": str(place.locked), "client_passphrase_env": "MY_PHRASE"}
        assert say(opened(agent.url, secret, **shown, **locked)).text == "fine"
        theirs = {"client_cert": str(stranger.cert), "client_key": str(stranger.key)}
        assert "refuses our certificate" in refusal(opened(agent.url, ca=str(place.ca), **theirs))

    assert "asks for a client certificate" in message
    assert "--a2a-client-cert FILE" in message


def test_our_certificate_stays_with_the_origin_that_the_user_named(place: Place, opened: Open) -> None:
    shown = {"ca": str(place.ca), "client_cert": str(place.cert), "client_key": str(place.key)}
    with raw_agent(fine, tls=place.server(asks=True), host="localhost") as other:
        with raw_agent(fine, dict(other.card), tls=place.server(asks=True), host="localhost") as agent:
            message = refusal(opened(agent.url, **shown))
            assert "asks for a client certificate" in message
            assert f"if you trust it, set A2A_ALLOWED_ORIGINS={other.url}" in message
            assert say(opened(agent.url, {"A2A_ALLOWED_ORIGINS": other.url}, **shown)).text == "fine"


# -- proxies --


def test_a_proxy_of_the_environment_is_used_but_not_to_this_machine(place: Place, opened: Open) -> None:
    names = ("localhost", "agent.internal")
    with forward_proxy() as proxy, raw_agent(fine, tls=place.server(*names), host="agent.internal") as agent:
        port = agent.url.rpartition(":")[2]
        environ = {"HTTPS_PROXY": proxy.url}
        assert say(opened(agent.url, environ, ca=str(place.ca))).text == "fine"
        assert set(proxy.asked) == {f"CONNECT agent.internal:{port}"}
        # The card names agent.internal, which only the proxy knows.
        agent.card["supportedInterfaces"][0]["url"] = f"https://localhost:{port}/rpc"
        proxy.asked.clear()
        assert say(opened(f"https://localhost:{port}", environ, ca=str(place.ca))).text == "fine"
        assert proxy.asked == []


@pytest.mark.parametrize("environ", [{}, {"HTTP_PROXY": "http://127.0.0.1:1", "http_proxy": "URL"}])
def test_a_request_without_tls_goes_through_a_proxy(opened: Open, environ: dict[str, str]) -> None:
    with forward_proxy() as proxy, raw_agent(fine, host="agent.internal") as agent:
        environ = {name: value.replace("URL", proxy.url) for name, value in environ.items()}
        assert say(opened(agent.url, environ, proxy="env" if environ else proxy.url)).text == "fine"
        assert f"POST {agent.url}/rpc" in proxy.asked


def test_a_proxy_that_wants_a_password(place: Place, opened: Open) -> None:
    server = place.server("agent.internal")
    with forward_proxy("me:pass-word-1") as proxy, raw_agent(fine, tls=server, host="agent.internal") as agent:
        known = {"HTTPS_PROXY": proxy.url.replace("//", "//me:pass-word-1@")}
        assert say(opened(agent.url, known, ca=str(place.ca))).text == "fine"
        wrong = opened(agent.url, {"HTTPS_PROXY": proxy.url.replace("//", "//me:guess-work-2@")}, ca=str(place.ca))
        message = refusal(wrong)
        with raw_agent(fine, host="agent.internal") as plain:
            assert "refuses the connection (407" in refusal(opened(plain.url, proxy=proxy.url))

    assert f"the proxy {proxy.url} refuses the connection (407" in message
    assert "put user and password into its URL in HTTPS_PROXY" in message
    assert "guess-work-2" not in f"{message} {wrong.config!r} {wrong.config.network!r}"
    assert "guess-work-2" in wrong.config.secrets


def test_a_proxy_that_is_not_there_is_named(opened: Open) -> None:
    message = refusal(opened("https://agent.internal", {"HTTPS_PROXY": "http://u:hidden-one@127.0.0.1:1"}))
    assert "the proxy http://127.0.0.1:1 cannot be reached" in message
    assert "--a2a-proxy none" in message
    assert "hidden-one" not in message


def test_netrc_is_never_read(opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password from-netrc\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    with raw_agent(fine) as agent:
        assert say(opened(agent.url)).text == "fine"
        assert all("authorization" not in request.headers for request in agent.requests)


# -- gRPC --


def test_grpc_with_authority_certificate_and_proxy(place: Place, opened: Open, tmp_path: Path) -> None:
    phrase = {"MY_PHRASE": Place.PASSPHRASE}
    shown = {"client_cert": str(place.cert), "client_key": str(place.locked), "client_passphrase_env": "MY_PHRASE"}
    with place.grpc_agent(asks=True) as (address, _), raw_agent(fine, grpc_card(address)) as agent:
        origins = {"A2A_ALLOWED_ORIGINS": f"https://{address}"}
        assert say(opened(agent.url, {**phrase, **origins}, ca=str(place.ca), **shown)).text == "fine"
        only = {"SSL_CERT_DIR": str(tmp_path)}
        (tmp_path / "own.pem").write_bytes(place.ca.read_bytes())
        assert say(opened(agent.url, {**phrase, **origins, **only}, **shown)).text == "fine"
        message = refusal(opened(agent.url, {**phrase, **origins}, **shown))
        assert "is not trusted" in message
        assert message.index("--a2a-ca") < message.index("--a2a-set verify-ssl=off")


def test_grpc_goes_through_a_proxy_but_not_to_this_machine(place: Place, opened: Open) -> None:
    with forward_proxy() as proxy, place.grpc_agent("127.0.0.1", "agent.internal") as (address, _):
        port = address.rpartition(":")[2]
        with raw_agent(fine, grpc_card(f"agent.internal:{port}")) as agent:
            assert say(opened(agent.url, {"HTTPS_PROXY": proxy.url}, ca=str(place.ca))).text == "fine"
        assert proxy.asked == [f"CONNECT agent.internal:{port}"]
        with raw_agent(fine, grpc_card(address)) as agent:
            assert say(opened(agent.url, {"HTTPS_PROXY": proxy.url}, ca=str(place.ca))).text == "fine"
        assert len(proxy.asked) == 1


# -- the judge of the protocol --


@pytest.mark.parametrize("binding", ["JSONRPC", "GRPC"])
def test_the_protocol_is_judged_over_the_same_network(place: Place, binding: str) -> None:
    shown = {"ca": str(place.ca), "client_cert": str(place.cert), "client_key": str(place.key)}
    with place.grpc_agent(asks=True) as (address, _):
        card = grpc_card(address) if binding == "GRPC" else None
        with raw_agent(fine, card, tls=place.server(asks=True), host="localhost") as agent:
            config = config_of(agent.url, {"A2A_ALLOWED_ORIGINS": f"https://{address}"}, **shown)
            subject = look_at(config)
            (target,) = targets_of(subject.card, subject.endpoint, config=config)
            reply = ask(target)
            bare = config_of(agent.url, ca=str(place.ca))
            with pytest.raises(EndpointUnreachableError, match="--a2a-client-cert FILE") as caught:
                look_at(bare)
            (target,) = targets_of(subject.card, subject.endpoint, config=bare)
            problem = ask(target).problem
    assert reply.result["message"]["parts"] == MESSAGE["message"]["parts"]
    assert "is the agent running" not in str(caught.value)
    assert "asks for a client certificate" in problem
    assert "--a2a-client-cert FILE" in problem


def test_servers_that_want_a_client_certificate_without_a_word(place: Place, opened: Open) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    port, tls = listener.getsockname()[1], place.server("127.0.0.1")

    def hang_up() -> None:
        accepted, _ = listener.accept()
        listener.close()
        with tls.wrap_socket(accepted, server_side=True) as one:
            one.recv(65536)  # the whole request, and no alert: as asyncio's servers do in TLS 1.3

    server = threading.Thread(target=hang_up, daemon=True)
    server.start()
    with pytest.raises(TransportError, match=r"before any answer .*asks for a client certificate.*--a2a-client-cert"):
        say(opened(f"https://127.0.0.1:{port}", ca=str(place.ca)))
    server.join(10)
