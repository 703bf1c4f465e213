"""Sessions with a Salesforce org: one login for all who ask it, and one new one when it has expired."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from pytest_a2a_bench.benchmarks.crmarena.org.salesforce_login import (
    SECRET_ARGUMENTS,
    Credentials,
    connect,
    expired_token,
)
from pytest_a2a_bench.errors import AuthenticationError
from pytest_a2a_bench.secret import KNOWN, KnownSecret


class Login(NamedTuple):
    """One session.

    :param generation: from 1; each new login has a higher one.
    """

    session_id: str
    instance: str
    base_url: str
    version: str
    generation: int

    def __repr__(self) -> str:
        return f"Login({self.instance!r}, generation={self.generation})"


class Logins(Protocol):
    """Where sessions come from."""

    def newer_than(self, generation: int) -> Login:
        """Return the session that is in use, or a new one if that is no newer than the given one.

        :raises AuthenticationError: if there is none to be had; asking again is no use then.
        :raises InfrastructureError: if Salesforce cannot be reached.
        """
        ...

    def close(self) -> None:
        """Forget the sessions."""
        ...


class OwnLogins:
    """Logs in by credentials. For any number of threads.

    :param session: makes a ``requests.Session``.
    """

    def __init__(self, credentials: Credentials, session: Callable[[], Any] | None = None) -> None:
        self._credentials = credentials
        self._session = session
        self._lock = threading.Lock()
        self._login: Login | None = None
        self._refused = ""
        self._forget = [KNOWN.remember(_secrets(credentials))]

    def newer_than(self, generation: int) -> Login:
        """See :class:`Logins`."""
        with self._lock:
            if self._login is not None and self._login.generation > generation:
                return self._login
            if self._refused:
                # Salesforce locks a user out after some ten wrong passwords: one refusal is enough.
                raise AuthenticationError(self._refused)
            if self._login is not None and not self._credentials.renewable:
                # Nobody here knows the password that a token was got with.
                raise AuthenticationError(expired_token())
            try:
                client = connect(self._credentials, self._session() if self._session is not None else None)
            except AuthenticationError as error:
                self._refused = str(error)
                raise
            number = self._login.generation + 1 if self._login is not None else 1
            version = self._credentials.version
            self._login = Login(client.session_id, client.sf_instance, client.base_url, version, number)
            self._forget.append(remember(self._login))
            # Every asker has a client of its own.
            client.session.close()
            return self._login

    def close(self) -> None:
        """See :class:`Logins`."""
        while self._forget:
            self._forget.pop()()


def remember(login: Login) -> Callable[[], None]:
    """Let the session's id be hidden wherever something is written, and return what ends that."""
    return KNOWN.remember([KnownSecret("the Salesforce session", login.session_id)])


def _secrets(credentials: Credentials) -> Iterator[KnownSecret]:
    for name, variable in SECRET_ARGUMENTS.items():
        if name in credentials.arguments:
            yield KnownSecret(variable, credentials.arguments[name])
