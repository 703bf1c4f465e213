"""A live Salesforce org behind the interface of a local one: read over its REST API with simple-salesforce."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from pytest_a2a_bench.a2a.network import is_loopback
from pytest_a2a_bench.benchmarks.crmarena.org import Language, OrgError, OrgSchema, QueryResult, standard_schema
from pytest_a2a_bench.benchmarks.crmarena.org.local import ROW_LIMIT
from pytest_a2a_bench.errors import (
    AuthenticationError,
    ConfigurationError,
    InfrastructureError,
    MissingExtraError,
    QuotaError,
    TransportError,
)
from pytest_a2a_bench.redact import KNOWN, KnownSecret

INSTANCE_URL = "SALESFORCE_INSTANCE_URL"
ACCESS_TOKEN = "SALESFORCE_ACCESS_TOKEN"
DOMAIN = "SALESFORCE_DOMAIN"
# simple-salesforce's own default.
DEFAULT_API_VERSION = "59.0"
WAYS = (
    (INSTANCE_URL, ACCESS_TOKEN),
    ("SALESFORCE_USERNAME", "SALESFORCE_PASSWORD", "SALESFORCE_SECURITY_TOKEN"),
    ("SALESFORCE_CONSUMER_KEY", "SALESFORCE_CONSUMER_SECRET", DOMAIN),
)
"""The variables of each way to log in, in the order in which they are tried."""
_ARGUMENTS = {name: name.removeprefix("SALESFORCE_").lower() for way in WAYS for name in way} | {
    ACCESS_TOKEN: "session_id"
}
"""The arguments of simple-salesforce that the variables are passed as."""
_SECRET = ("session_id", "password", "security_token", "consumer_secret")

TIMEOUT = 120.0
"""Seconds for one request: as long as Salesforce itself lets a query take."""
# Trouble of the server, not of the query: the agent does not see it, and the trial is an infrastructure error.
_OVERLOADED = ("SERVER_UNAVAILABLE", "UNKNOWN_EXCEPTION", "API_DISABLED_FOR_ORG", "REQUEST_LIMIT_EXCEEDED")
# A literal may hold anything, so it is removed before the query's own words are checked.
_LITERAL = re.compile(r"'(?:[^'\\]|\\.)*'", re.DOTALL)
# The words that are searched for may hold quotes, and are no literal of SOQL.
_FIND_TERM = re.compile(r"\{.*?(?<!\\)\}", re.DOTALL)
# Reading must not change what people see as recently used, nor lock records.
_LEAVES_A_TRACE = re.compile(r"\b(?:FOR\s+(?:VIEW|REFERENCE|UPDATE)|UPDATE\s+(?:TRACKING|VIEWSTAT))\b", re.IGNORECASE)


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
    def secrets(self) -> list[KnownSecret]:
        """The values that are hidden wherever something is written."""
        names = {argument: name for name, argument in _ARGUMENTS.items()}
        return [KnownSecret(names[each], self.arguments[each]) for each in _SECRET if each in self.arguments]


def read_credentials(environ: Mapping[str, str]) -> Credentials:
    """Read the first complete set of variables.

    :raises ConfigurationError: if there is none, or the instance URL is not one.
    """
    version = environ.get("SALESFORCE_API_VERSION", "").removeprefix("v") or DEFAULT_API_VERSION
    # A token first: with one no password is needed.
    for names in WAYS:
        if all(environ.get(name) for name in names):
            # A domain (sandbox: test) goes with either of the other ways.
            domain = [DOMAIN] if INSTANCE_URL not in names and environ.get(DOMAIN) else []
            if INSTANCE_URL in names:
                _check_url(environ[INSTANCE_URL])
            return Credentials({_ARGUMENTS[name]: environ[name] for name in [*names, *domain]}, version)
    ways = "; or ".join(" and ".join(names) for names in WAYS)
    # Most mistakes are one variable of a set that is missing.
    begun = sorted(name for name in _ARGUMENTS if environ.get(name))
    found = f"only {', '.join(begun)} set" if begun else "none of them is set"
    raise ConfigurationError(f"a Salesforce org needs credentials in the environment: {ways}; {found}")


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.hostname and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname))):
        return
    raise ConfigurationError(
        f"{INSTANCE_URL} is {url!r}; expected https://... (http:// only for a server on this machine), "
        "such as https://mydomain.my.salesforce.com"
    )


def open_salesforce(environ: Mapping[str, str], schema: OrgSchema | None = None) -> SalesforceOrg:
    """Return the org that the environment names; nothing is sent before it is asked.

    :param environ: holds the credentials, see :data:`WAYS`.
    :param schema: the schema that the agent sees; by default that of the benchmark's objects.
    :raises ConfigurationError: if the credentials are incomplete.
    """
    return SalesforceOrg(read_credentials(environ), schema)


class SalesforceOrg:
    """An org on Salesforce's servers.

    All threads share one login, which simple-salesforce renews. Only ``SELECT`` and ``FIND`` are ever sent, by GET, and
    no clause that would leave a trace in the org (``FOR VIEW``, ``UPDATE TRACKING``).

    :param credentials: to log in with.
    :param row_limit: records of one answer; a query that finds more is refused instead of downloaded.
    :param session: makes a ``requests.Session`` for the login.
    """

    def __init__(
        self,
        credentials: Credentials,
        schema: OrgSchema | None = None,
        *,
        row_limit: int = ROW_LIMIT,
        timeout: float = TIMEOUT,
        session: Callable[[], Any] | None = None,
    ) -> None:
        self.name = f"salesforce:{credentials.place}"
        self.schema = schema or standard_schema()
        self._credentials = credentials
        self._row_limit = row_limit
        self._timeout = timeout
        self._make_session = session
        self._lock = threading.Lock()
        self._client: Any = None
        # Once the org has refused to answer any more: neither a wrong password nor a request is sent again.
        self._stopped: AuthenticationError | QuotaError | None = None
        self._forget = [KNOWN.remember(credentials.secrets)]

    @property
    def day(self) -> tuple[int, int] | None:
        """The org's requests of this day, by the last answer's header Sforce-Limit-Info."""
        usage = self._client.api_usage.get("api-usage") if self._client is not None else None
        return (usage.used, usage.total) if usage is not None else None

    def run(self, text: str) -> QueryResult:
        """Answer one query; see :class:`~pytest_a2a_bench.benchmarks.crmarena.org.Org`."""
        query = text.strip()
        language = _language_of(query)
        began = time.monotonic()
        # One count for the whole answer, children included.
        read = [0]
        try:
            if language == "sosl":
                answer = self._get("search/", q=query)
                # API versions before 37 answer with a bare list.
                records = list(answer if isinstance(answer, list) else answer.get("searchRecords", ()))
                total = read[0] = len(records)
            else:
                answer = self._get("query/", q=query)
                records = self._all_records(answer, read)
                total = int(answer["totalSize"])
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            # A proxy may answer 200 with something else.
            raise TransportError(f"{self.name} answered what is no query's answer: {error!r}") from error
        return QueryResult(language, tuple(records), total, read[0], time.monotonic() - began)

    def close(self) -> None:
        """Close the connection, and forget the secrets."""
        with self._lock:
            client, self._client = self._client, None
            forget, self._forget = self._forget, []
        if client is not None:
            client.session.close()
        for each in forget:
            each()

    def _all_records(self, envelope: Mapping[str, Any], read: list[int]) -> list[dict[str, Any]]:
        """Return an envelope's records with those of its further pages, and their children with all of theirs."""
        records: list[dict[str, Any]] = []
        page = envelope
        while True:
            records += page["records"]
            read[0] += len(page["records"])
            # While it grows: a query over millions must not be downloaded to be refused.
            if read[0] > self._row_limit:
                raise OrgError(
                    "OPERATION_TOO_LARGE",
                    f"the query finds more than {self._row_limit} records; narrow it down or aggregate",
                )
            # Children come in pages of their own.
            for children in (value for record in page["records"] for value in record.values()):
                if isinstance(children, dict) and "records" in children:
                    children["records"] = self._all_records(children, read)
                    children["done"] = True
                    children.pop("nextRecordsUrl", None)
            if page.get("done", True):
                return records
            # What follows the base in /services/data/v59.0/query/01g...-2000: no other host is ever asked.
            page = self._get("query/" + urlsplit(str(page["nextRecordsUrl"])).path.rsplit("/", 1)[-1])

    def _get(self, path: str, **parameters: str) -> Any:
        """Send one GET request.

        :raises OrgError: if Salesforce refuses the query.
        :raises InfrastructureError: if it did not answer it, or not as Salesforce does.
        """
        client = self._connected()
        with self._errors(client):
            # No redirects: a session id goes to the org's own host only.
            return client.restful(path, params=parameters, timeout=self._timeout, allow_redirects=False) or {}

    def _connected(self) -> Any:
        """Return the client that all threads share, logging in for the first thread that asks.

        :raises MissingExtraError: if simple-salesforce is not installed.
        :raises InfrastructureError: if Salesforce refuses the credentials, cannot be reached, or gives no more answers
            today.
        """
        with self._lock:
            if self._stopped is not None:
                # Salesforce locks a user out after some ten wrong passwords, and counts refused requests, too.
                raise self._stopped
            if self._client is None:
                with self._errors():
                    self._client = _log_in(self._credentials, self._make_session() if self._make_session else None)
                self._forget.append(KNOWN.remember([KnownSecret("the Salesforce session", self._client.session_id)]))
            return self._client

    @contextmanager
    def _errors(self, client: Any = None) -> Iterator[None]:
        """Raise errors of simple-salesforce and requests inside of the block as errors of ours."""
        try:
            import requests
            from simple_salesforce.exceptions import SalesforceAuthenticationFailed, SalesforceError
        except ImportError as error:
            raise MissingExtraError("simple-salesforce", "salesforce", str(error)) from error
        instance = f"Salesforce ({client.sf_instance})" if client is not None else "Salesforce"
        try:
            yield
        except SalesforceAuthenticationFailed as error:
            text = f"Salesforce refused the credentials: {str(error).rstrip('.')}; check the SALESFORCE_* variables"
            self._stopped = AuthenticationError(text)
            raise self._stopped from error
        except SalesforceError as error:
            refusal = _read_refusal(error.status, error.content, instance)
            if isinstance(refusal, QuotaError):
                self._stopped = refusal
            raise refusal from error
        except requests.exceptions.JSONDecodeError as error:
            raise TransportError(f"{instance} answered what is not JSON: {error}") from error
        except requests.Timeout as error:
            raise TransportError(f"{instance} did not answer in {self._timeout:g} s") from error
        except requests.RequestException as error:
            what = "cannot be reached" if client is not None else "cannot be reached to log in"
            raise TransportError(f"{instance} {what}: {error}") from error


def _log_in(credentials: Credentials, session: Any) -> Any:
    from simple_salesforce.api import Salesforce

    # object_pairs_hook=dict: its own ordered dictionaries are no JSON to anybody else.
    client = Salesforce(**credentials.arguments, version=credentials.version, session=session, object_pairs_hook=dict)
    plain = urlsplit(credentials.arguments.get("instance_url", ""))
    if plain.scheme == "http":  # a server on this machine: simple-salesforce itself only knows https
        client.base_url = f"http://{plain.netloc}/services/data/v{credentials.version}/"
    return client


def _language_of(query: str) -> Language:
    """Return the language of a query.

    :raises OrgError: if it is neither SOQL nor SOSL, or would leave a trace in the org.
    """
    first = re.match(r"[A-Za-z]*", query)
    # Before anything is sent: the org may be in production.
    word = first[0].upper() if first else ""
    if word not in ("SELECT", "FIND"):
        token = query.split(maxsplit=1)[0] if query else "<EOF>"
        raise OrgError("MALFORMED_QUERY", f"unexpected token: '{token}'")
    # Only the first braces of a FIND are its search term.
    bare = _LITERAL.sub("''", _FIND_TERM.sub("{}", query, count=1) if word == "FIND" else query)
    trace = _LEAVES_A_TRACE.search(bare)
    if trace is not None:
        raise OrgError("MALFORMED_QUERY", f"unexpected token: '{trace[0]}' (the org may only be read)")
    return "sosl" if word == "FIND" else "soql"


def _read_refusal(status: int, content: Any, instance: str) -> OrgError | InfrastructureError:
    """Classify an error answer: the query's, the session's, or the server's."""
    first = content[0] if isinstance(content, list) and content and isinstance(content[0], dict) else {}
    code, message = str(first.get("errorCode", "")), str(first.get("message", ""))
    # Whatever the code says: a 401 is the session's.
    if status == 401:
        text = f"the Salesforce session has expired or was never valid ({code or status}: {message})"
        return AuthenticationError(f"{text}; set a new {ACCESS_TOKEN}")
    # The same code also says that too many requests run at once, which passes.
    if code == "REQUEST_LIMIT_EXCEEDED" and "TotalRequests" in message:
        return QuotaError(f"{instance} gives no more answers: {code}: {message}", status_code=status)
    # Salesforce gives refusals of queries a code; a page of HTML with status 400 has none.
    if code and status < 500 and code not in _OVERLOADED:
        return OrgError(code, message)
    said = f"{code}: {message}" if code else " ".join(str(content).split())[:200]
    return TransportError(f"{instance} answered HTTP {status}: {said}", status_code=status)
