"""How a Salesforce org is reached: credentials from the environment, and a client of simple-salesforce from them."""

from __future__ import annotations

import ipaddress
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from pytest_a2a_bench.errors import AuthenticationError, ConfigurationError, MissingExtraError, TransportError
from pytest_a2a_bench.secret import KNOWN, KnownSecret

INSTANCE_URL = "SALESFORCE_INSTANCE_URL"
ACCESS_TOKEN = "SALESFORCE_ACCESS_TOKEN"
USERNAME = "SALESFORCE_USERNAME"
PASSWORD = "SALESFORCE_PASSWORD"
SECURITY_TOKEN = "SALESFORCE_SECURITY_TOKEN"
CONSUMER_KEY = "SALESFORCE_CONSUMER_KEY"
CONSUMER_SECRET = "SALESFORCE_CONSUMER_SECRET"
DOMAIN = "SALESFORCE_DOMAIN"
API_VERSION = "SALESFORCE_API_VERSION"

# simple-salesforce's own default.
DEFAULT_API_VERSION = "59.0"

WAYS = (
    (INSTANCE_URL, ACCESS_TOKEN),
    (USERNAME, PASSWORD, SECURITY_TOKEN),
    (CONSUMER_KEY, CONSUMER_SECRET, DOMAIN),
)
"""The variables of each way to log in, in the order in which they are tried."""

_ARGUMENTS = {
    INSTANCE_URL: "instance_url",
    ACCESS_TOKEN: "session_id",
    USERNAME: "username",
    PASSWORD: "password",
    SECURITY_TOKEN: "security_token",
    CONSUMER_KEY: "consumer_key",
    CONSUMER_SECRET: "consumer_secret",
    DOMAIN: "domain",
}

SECRET_ARGUMENTS = {_ARGUMENTS[name]: name for name in (ACCESS_TOKEN, PASSWORD, SECURITY_TOKEN, CONSUMER_SECRET)}
"""Arguments that nobody may see, and the variables that they are from."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """How to log in.

    :param arguments: for simple-salesforce's client; never shown.
    """

    arguments: Mapping[str, str] = field(repr=False)
    version: str = DEFAULT_API_VERSION

    @property
    def place(self) -> str:
        """The org's host, as far as it is known before logging in."""
        return urlsplit(self.arguments.get("instance_url", "")).netloc or self.arguments.get("domain", "login")

    @property
    def renewable(self) -> bool:
        """Whether an expired session can be replaced by logging in again."""
        return "session_id" not in self.arguments


def read_credentials(environ: Mapping[str, str]) -> Credentials:
    """Read the first complete set of variables.

    :raises ConfigurationError: if there is none, or the instance URL is not one.
    """
    version = environ.get(API_VERSION, "").removeprefix("v") or DEFAULT_API_VERSION
    # A token first: whoever has one needs no password here.
    for names in WAYS:
        if all(environ.get(name) for name in names):
            # A domain (sandbox: test) goes with either of the other ways.
            chosen = [*names, *([DOMAIN] if DOMAIN not in names and environ.get(DOMAIN) else [])]
            if INSTANCE_URL in names:
                chosen = list(names)
                _check_url(environ[INSTANCE_URL])
            return Credentials({_ARGUMENTS[name]: environ[name] for name in chosen}, version)
    ways = "; or ".join(" and ".join(names) for names in WAYS)
    # Most mistakes are one variable of a set that is missing.
    begun = sorted(name for name in _ARGUMENTS if environ.get(name))
    found = f"only {', '.join(begun)} set" if begun else "none of them is set"
    raise ConfigurationError(f"a Salesforce org needs credentials in the environment: {ways}; {found}")


def connect(credentials: Credentials, session: Any = None) -> Any:
    """Log in and return simple-salesforce's client.

    :param session: a ``requests.Session`` to use.
    :raises MissingExtraError: if simple-salesforce is not installed.
    :raises AuthenticationError: if Salesforce refuses the credentials.
    :raises TransportError: if it cannot be reached.
    """
    try:
        import requests
        import simple_salesforce
    except ImportError as error:
        raise MissingExtraError("simple-salesforce", "salesforce", str(error)) from error
    try:
        client = simple_salesforce.Salesforce(
            # object_pairs_hook=dict: its own ordered dictionaries are no JSON to anybody else.
            **credentials.arguments,
            version=credentials.version,
            session=session,
            object_pairs_hook=dict,
        )
    except simple_salesforce.SalesforceAuthenticationFailed as error:
        raise AuthenticationError(
            f"Salesforce refused the credentials: {str(error).rstrip('.')}; check the SALESFORCE_* variables"
        ) from error
    except requests.RequestException as error:
        raise TransportError(f"Salesforce cannot be reached to log in: {error}") from error
    plain = urlsplit(credentials.arguments.get("instance_url", ""))
    if plain.scheme == "http":  # a server on this machine: simple-salesforce itself only knows https
        client.base_url = f"http://{plain.netloc}/services/data/v{credentials.version}/"
    return client


class Login(NamedTuple):
    """One session.

    :param generation: from 1; each new login has a higher one.
    """

    session_id: str
    instance: str
    base_url: str
    generation: int

    def __repr__(self) -> str:
        return f"Login({self.instance!r}, generation={self.generation})"


class Logins:
    """The sessions of one process: one login for all of its threads, and a new one when that has expired.

    :param session: makes a ``requests.Session``.
    """

    def __init__(self, credentials: Credentials, session: Callable[[], Any] | None = None) -> None:
        self.credentials = credentials
        self._session = session
        self._lock = threading.Lock()
        self._login: Login | None = None
        self._refused = ""
        given = credentials.arguments
        secrets = [KnownSecret(variable, given[name]) for name, variable in SECRET_ARGUMENTS.items() if name in given]
        self._forget = [KNOWN.remember(secrets)]

    def newer_than(self, generation: int) -> Login:
        """Return the session that is in use, or a new one if that is no newer than the given one.

        :raises AuthenticationError: if Salesforce refused the credentials, or a given token has expired.
        :raises InfrastructureError: if Salesforce cannot be reached.
        """
        with self._lock:
            if self._login is not None and self._login.generation > generation:
                return self._login
            if self._refused:
                # Salesforce locks a user out after some ten wrong passwords: one attempt is enough.
                raise AuthenticationError(self._refused)
            if self._login is not None and not self.credentials.renewable:
                raise AuthenticationError(
                    f"the Salesforce session has expired or was never valid; set a new {ACCESS_TOKEN}"
                )
            try:
                client = connect(self.credentials, self._session() if self._session is not None else None)
            except AuthenticationError as error:
                self._refused = str(error)
                raise
            number = self._login.generation + 1 if self._login is not None else 1
            self._login = Login(client.session_id, client.sf_instance, client.base_url, number)
            self._forget.append(KNOWN.remember([KnownSecret("the Salesforce session", client.session_id)]))
            # Each thread has a client of its own.
            client.session.close()
            return self._login

    def close(self) -> None:
        """Forget the secrets of these sessions."""
        while self._forget:
            self._forget.pop()()


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme == "http" and parts.hostname and _is_this_machine(parts.hostname):
        return
    raise ConfigurationError(
        f"{INSTANCE_URL} is {url!r}; expected https://... (http:// only for a server on this machine), "
        "such as https://mydomain.my.salesforce.com"
    )


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
