"""OAuth 2 client credentials with a real token endpoint: whose secret goes where, and tokens that end."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from private_network import CLIENT, SECRET, Authority, Place, ask, grpc_card, guarded_agent, oauth_card
from private_network import config_of as config_in
from raw_agent import raw_agent, response

from pytest_a2a_bench.a2a.auth import authentication
from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.a2a.transport import Issued, TokenSource
from pytest_a2a_bench.conformance.subject import look_at
from pytest_a2a_bench.conformance.target import targets_of
from pytest_a2a_bench.errors import AuthenticationError, TransportError
from pytest_a2a_bench.model import Part
from pytest_a2a_bench.redact import hide_secrets

ENVIRON = {"A2A_OAUTH_CLIENT_ID": CLIENT, "A2A_OAUTH_CLIENT_SECRET": SECRET}


def config_of(url: str, environ: dict[str, str] | None = None, **settings: Any) -> ClientConfig:
    return config_in(url, {**ENVIRON, **(environ or {})}, **settings)


def say(config: ClientConfig, times: int = 1) -> list[str]:
    with AgentConnection(config) as connection:
        session = connection.session()
        return [session.send([Part.of_text("hello")]).text for _ in range(times)]


def refused(config: ClientConfig, kind: type[Exception] = AuthenticationError) -> str:
    with pytest.raises(kind) as caught:
        say(config)
    assert SECRET not in f"{caught.value} {caught.value.__cause__!r} {config!r}"
    return str(caught.value)


def test_an_agent_whose_card_asks_for_a_token_gets_one() -> None:
    authority = Authority()
    with guarded_agent(authority) as url:
        assert say(config_of(url), times=3) == ["fine"] * 3
        config = config_of(url)
        assert say(config) == ["fine"]  # another conversation of this process
    (token,) = authority.valid
    assert hide_secrets(f"you sent {token}", config.secrets) == "you sent ***"
    (form,) = authority.asked
    assert (form["grant_type"], form["scope"]) == ("client_credentials", "chat")
    assert form["authorization"].startswith("Basic ")
    assert "client_secret" not in form


def test_the_secret_in_the_form_and_other_scopes() -> None:
    authority = Authority()
    with guarded_agent(authority) as url:
        assert say(config_of(url, oauth_method="post", oauth_scopes=("a", "b"))) == ["fine"]
    (form,) = authority.asked
    assert (form["client_id"], form["client_secret"], form["authorization"]) == (CLIENT, SECRET, "")
    assert form["scope"] == "a b"


def test_many_conversations_ask_once() -> None:
    authority = Authority()

    async def converse(connection: AgentConnection) -> list[str]:
        sessions = [connection.session() for _ in range(20)]
        return [r.text for r in await asyncio.gather(*(s.asend([Part.of_text("hello")]) for s in sessions))]

    with guarded_agent(authority) as url, AgentConnection(config_of(url)) as connection:
        assert asyncio.run(converse(connection)) == ["fine"] * 20
    assert len(authority.asked) == 1


def test_a_token_that_was_taken_back_is_replaced() -> None:
    authority = Authority(once=True)  # each token is good for one request
    with guarded_agent(authority) as url:
        assert say(config_of(url), times=3) == ["fine"] * 3
    assert len(authority.asked) == 3


def test_a_fresh_token_that_is_refused_is_not_asked_for_again() -> None:
    authority = Authority()
    with guarded_agent(authority) as url:
        authority.valid = type("Never", (set,), {"__contains__": lambda *_: False})()
        message = refused(config_of(url))
    assert "an OAuth 2 token was sent and refused; check its value and scopes" in message
    assert "access-token-number" not in message
    assert len(authority.asked) == 1


def test_a_refusal_of_the_token_endpoint_says_what_it_answered() -> None:
    authority = Authority()
    with guarded_agent(authority) as url:
        message = refused(
            config_of(url, {"A2A_OAUTH_CLIENT_ID": "stranger", "A2A_OAUTH_CLIENT_SECRET": "wrong-secret-1"})
        )
        authority.refuse = response(
            {"error": "invalid_client", "error_description": f"not {SECRET}"}, "400 Bad Request"
        )
        echoed = refused(config_of(url))
        authority.refuse = response("<html>", "200 OK", "text/html")
        nothing = refused(config_of(url))
        authority.refuse = response("later", "503 Service Unavailable")
        trouble = refused(config_of(url), TransportError)
    assert "/token: HTTP 401, saying invalid_client" in message
    assert "check A2A_OAUTH_CLIENT_ID and A2A_OAUTH_CLIENT_SECRET" in message
    assert "--a2a-set oauth-method=post" in message
    assert "saying invalid_client: not ***" in echoed
    assert "expected an access_token" in nothing
    assert "HTTP 503" in trouble


def test_a_token_url_elsewhere_needs_the_users_word() -> None:
    thief, authority = Authority(), Authority()
    with raw_agent(thief.serve, {}) as elsewhere, guarded_agent(authority, lambda _: f"{elsewhere.url}/token") as url:
        message = refused(config_of(url))
        assert thief.asked == []
        assert f"--a2a-set oauth-token-url={elsewhere.url}/token" in message
        authority.valid = thief.valid
        assert say(config_of(url, oauth_token_url=f"{elsewhere.url}/token")) == ["fine"]
        assert say(config_of(url, {"A2A_ALLOWED_ORIGINS": elsewhere.url})) == ["fine"]
    assert len(thief.asked) == 1  # both are one grant


def test_a_token_stays_at_the_endpoints_origin() -> None:
    authority, other = Authority(), Authority()
    with raw_agent(other.serve, {}) as elsewhere, guarded_agent(authority) as url:
        assert authority.agent is not None
        authority.agent.card["supportedInterfaces"][0]["url"] = f"{elsewhere.url}/rpc"
        assert "was withheld" in refused(config_of(url))
    assert [r.headers.get("authorization") for r in elsewhere.requests] == [None]


def test_a_card_that_offers_no_flow_says_what_to_do() -> None:
    authority = Authority()
    with guarded_agent(authority) as url:
        assert authority.agent is not None
        token_url = f"{url}/token"
        del authority.agent.card["securitySchemes"]
        assert "oauth-token-url" in refused(config_of(url))
        assert say(config_of(url, oauth_token_url=token_url)) == ["fine"]


@pytest.mark.parametrize("version", ["1.0", "0.3"])
def test_both_versions_of_a_card_name_scopes(version: str) -> None:
    from pytest_a2a_bench.a2a.auth import find_grant
    from pytest_a2a_bench.a2a.card import parse_card

    raw = oauth_card("https://agent.example", "https://agent.example/token", ["one", "two"])
    if version == "0.3":
        flows = raw["securitySchemes"]["company"]["oauth2SecurityScheme"]["flows"]
        raw["securitySchemes"] = {"company": {"type": "oauth2", "flows": flows}}
        raw["security"] = [{"company": ["one", "two"]}]
        del raw["securityRequirements"]
    config = config_of("https://agent.example")
    grant = find_grant(config, parse_card(raw, config.endpoint))
    assert grant is not None
    assert (grant.token_url, grant.scopes) == ("https://agent.example/token", ("one", "two"))
    raw.pop("securityRequirements", raw.pop("security", None))
    grant = find_grant(config, parse_card(raw, config.endpoint))
    assert grant is not None
    assert grant.scopes == ("chat", "admin")


def test_grpc_calls_carry_the_token(place: Place) -> None:
    authority = Authority()
    with place.grpc_agent(token="access-token-number-1") as (address, calls), guarded_agent(authority) as url:
        assert authority.agent is not None
        authority.agent.card["supportedInterfaces"] = grpc_card(address)["supportedInterfaces"]
        environ = {"A2A_ALLOWED_ORIGINS": f"https://{address}"}
        config = config_of(url, environ, ca=str(place.ca))
        assert say(config, times=2) == ["fine"] * 2
        assert (len(calls), len(authority.asked)) == (2, 1)
        authority.refuse = response({"error": "unauthorized_client"}, "400 Bad Request")
        assert "unauthorized_client" in refused(config_of(url, environ, ca=str(place.ca), oauth_scopes=("other",)))


def test_the_protocol_is_judged_with_a_token() -> None:
    authority = Authority()
    with guarded_agent(authority) as url:
        config = config_of(url)
        subject = look_at(config)
        (target,) = targets_of(subject.card, subject.endpoint, config=config)
        with_token, without = ask(target), ask(target, auth=False)
    assert (with_token.status, without.status) == (200, 401)
    assert "access-token" not in repr(with_token.exchange)


# -- tokens that end --


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def source_of(clock: Clock, lifetimes: Iterator[float | Exception | None]) -> TokenSource:
    numbers = iter(range(1, 100))

    async def fetch() -> Issued:
        await asyncio.sleep(0)
        lifetime = next(lifetimes)
        if isinstance(lifetime, Exception):
            raise lifetime
        return Issued(f"t{next(numbers)}", lifetime)

    return TokenSource(fetch, clock)


def test_a_token_is_renewed_before_it_ends(clock: Clock) -> None:
    async def use() -> list[str]:
        source = source_of(clock, iter([None, 1000.0, 10.0, 0.0, 5.0, 100.0]))
        found = []
        for later in (0, 3600, 939, 2, 7, 2, 0):
            clock.now += later
            found.append(await source.token())
        return found

    # 1000 s: a minute before; 10 s: two seconds before; one of no seconds serves one request. It need not say its end.
    assert asyncio.run(use()) == ["t1", "t2", "t2", "t3", "t3", "t4", "t5"]


def test_while_a_renewal_fails_the_old_token_serves_until_its_end(clock: Clock) -> None:
    async def use() -> None:
        trouble = TransportError("the server is down")
        source = source_of(clock, iter([100.0, trouble, trouble, 100.0]))
        assert await source.token() == "t1"
        clock.now += 90
        assert await source.token() == "t1"
        clock.now += 11
        with pytest.raises(TransportError, match="the server is down"):
            await source.token()
        assert await source.token() == "t2"

    asyncio.run(use())


def test_a_source_serves_one_event_loop_after_another(clock: Clock) -> None:
    source = source_of(clock, iter([1.0, 1.0]))
    assert asyncio.run(source.token()) == "t1"
    clock.now += 2
    assert asyncio.run(source.token()) == "t2"


def test_without_anything_there_are_no_credentials() -> None:
    assert not authentication(ClientConfig("https://agent.example"), None)
