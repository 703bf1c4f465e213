"""A live Salesforce org behind the interface of a local one: read over its REST API with simple-salesforce."""

from __future__ import annotations

import ipaddress
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast, get_args
from urllib.parse import urlsplit

from pytest_a2a_bench.benchmarks.crmarena.org.base import Language, OrgError, QueryResult
from pytest_a2a_bench.benchmarks.crmarena.org.schema import Field, FieldType, OrgSchema, SObject
from pytest_a2a_bench.benchmarks.crmarena.org.standard import standard_schema
from pytest_a2a_bench.errors import (
    AuthenticationError,
    ConfigurationError,
    InfrastructureError,
    MissingExtraError,
    QuotaError,
    TransportError,
)
from pytest_a2a_bench.secret import KNOWN, KnownSecret

INSTANCE_URL = "SALESFORCE_INSTANCE_URL"
ACCESS_TOKEN = "SALESFORCE_ACCESS_TOKEN"
DOMAIN = "SALESFORCE_DOMAIN"
API_VERSION = "SALESFORCE_API_VERSION"
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

    @property
    def secrets(self) -> list[KnownSecret]:
        """The values that are hidden wherever something is written."""
        names = {argument: name for name, argument in _ARGUMENTS.items()}
        return [KnownSecret(names[each], self.arguments[each]) for each in _SECRET if each in self.arguments]


def read_credentials(environ: Mapping[str, str]) -> Credentials:
    """Read the first complete set of variables.

    :raises ConfigurationError: if there is none, or the instance URL is not one.
    """
    version = environ.get(API_VERSION, "").removeprefix("v") or DEFAULT_API_VERSION
    # A token first: with one no password is needed.
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


TIMEOUT = 120.0
"""Seconds for one request: as long as Salesforce itself lets a query take."""

ROW_LIMIT = 50_000
"""Records of one answer; an agent's own query that finds more is refused instead of downloaded."""

_EXPIRED = 401
# Trouble of the server, not of the query: the agent does not see it, and the trial is an infrastructure error.
_OVERLOADED = ("SERVER_UNAVAILABLE", "UNKNOWN_EXCEPTION", "API_DISABLED_FOR_ORG")

#: The org's requests of 24 hours are used up.
_USED_UP = "REQUEST_LIMIT_EXCEEDED"
_DAILY = "TotalRequests"

# A literal may hold anything, so it is removed before the query's own words are checked.
_LITERAL = re.compile(r"'(?:[^'\\]|\\.)*'", re.DOTALL)
# What is searched for may hold quotes, and is no literal of SOQL.
_FIND_TERM = re.compile(r"\{.*?(?<!\\)\}", re.DOTALL)
# Reading must not change what people see as recently used, nor lock records.
_LEAVES_A_TRACE = re.compile(r"\b(?:FOR\s+(?:VIEW|REFERENCE|UPDATE)|UPDATE\s+(?:TRACKING|VIEWSTAT))\b", re.IGNORECASE)


def open_salesforce(environ: Mapping[str, str], schema: OrgSchema | None = None) -> SalesforceOrg:
    """Return the org that the environment names; nothing is sent before it is asked.

    :param environ: holds the credentials, see :data:`WAYS`.
    :param schema: the schema that the agent sees; by default the org's own description.
    :raises ConfigurationError: if the credentials are incomplete.
    """
    return SalesforceOrg(read_credentials(environ), schema)


class SalesforceOrg:
    """An org on Salesforce's servers.

    All threads share one login. Only ``SELECT`` and ``FIND`` are ever sent, by GET, and no clause that would leave a
    trace in the org (``FOR VIEW``, ``UPDATE TRACKING``).

    :param credentials: to log in with.
    :param session: makes a ``requests.Session`` for each login.
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
        self._credentials = credentials
        self._schema = schema
        self._row_limit = row_limit
        self._timeout = timeout
        self._make_session = session
        self._lock = threading.Lock()
        self._clients: list[Any] = []
        # Once the org has refused to answer any more: neither a wrong password nor a request is sent again.
        self._stopped: AuthenticationError | QuotaError | None = None
        self._forget = [KNOWN.remember(credentials.secrets)]

    @property
    def schema(self) -> OrgSchema:
        """The schema that the agent sees: the given one, or the org's own description of these objects."""
        with self._lock:
            if self._schema is not None:
                return self._schema
        # Outside of the lock: describing all objects takes many requests.
        described = read_described(self._describe())
        with self._lock:
            self._schema = self._schema or described
            return self._schema

    def run(self, text: str) -> QueryResult:
        """Answer one query; see :class:`~pytest_a2a_bench.benchmarks.crmarena.org.base.Org`."""
        query = text.strip()
        language = _language_of(query)
        began = time.monotonic()
        try:
            if language == "sosl":
                records = _found(self._get("search/", q=query))
                total = len(records)
            # One count for the whole answer, children included, hence a list that all share.
            else:
                answer = self._get("query/", q=query)
                records = self._all_records(answer, [0])
                total = int(answer["totalSize"])
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            # A proxy may answer 200 with something else.
            raise TransportError(f"{self.name} answered what is no query's answer: {error!r}") from error
        return QueryResult(language, tuple(records), total, _count(records), time.monotonic() - began)

    def close(self) -> None:
        """Close every connection, and forget the secrets."""
        with self._lock:
            clients, self._clients = self._clients, []
            forget, self._forget = self._forget, []
        for client in clients:
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
            for record in page["records"]:
                self._complete_children(record, read)
            if page.get("done", True):
                return records
            page = self._get(_path_of(str(page["nextRecordsUrl"])))

    def _complete_children(self, record: dict[str, Any], read: list[int]) -> None:
        for children in record.values():
            # Children come in pages of their own.
            if isinstance(children, dict) and "records" in children:
                children["records"] = self._all_records(children, read)
                children["done"] = True
                children.pop("nextRecordsUrl", None)

    def _describe(self) -> Iterator[Mapping[str, Any]]:
        listed = {str(each["name"]) for each in self._get("sobjects/")["sobjects"]}
        for sobject in standard_schema().objects:
            if sobject.name in listed:
                yield self._get(f"sobjects/{sobject.name}/describe/")

    def _get(self, path: str, **parameters: str) -> Any:
        """Send one GET request, logging in again once where the session has expired.

        :raises OrgError: if Salesforce refuses what was asked.
        :raises InfrastructureError: if it did not answer it.
        """
        client = self._connected()
        try:
            return self._send(client, path, parameters)
        except _ExpiredError:
            client = self._connected(expired=client)
        try:
            return self._send(client, path, parameters)
        except _ExpiredError as error:
            raise AuthenticationError(f"Salesforce refuses the session it has just given: {error}") from error

    def _send(self, client: Any, path: str, parameters: Mapping[str, str]) -> Any:
        import requests
        from simple_salesforce.exceptions import SalesforceError

        try:
            # No redirects: a session id goes to the org's own host only.
            return client.restful(path, params=dict(parameters), timeout=self._timeout, allow_redirects=False) or {}
        except SalesforceError as error:
            refusal = _read_refusal(error.status, error.content, client.sf_instance)
            if isinstance(refusal, QuotaError):
                self._stopped = refusal
            raise refusal from error
        except requests.exceptions.JSONDecodeError as error:
            raise TransportError(f"Salesforce ({client.sf_instance}) answered what is not JSON: {error}") from error
        except requests.Timeout as error:
            raise TransportError(f"Salesforce ({client.sf_instance}) did not answer in {self._timeout:g} s") from error
        except requests.RequestException as error:
            raise TransportError(f"Salesforce ({client.sf_instance}) cannot be reached: {error}") from error

    def _connected(self, expired: Any = None) -> Any:
        """Return the client that all threads share, logging in for the first thread that asks.

        :param expired: a client whose session does not do any more.
        :raises AuthenticationError: if Salesforce refused the credentials, or a given token has expired.
        :raises InfrastructureError: if Salesforce cannot be reached, or gives no more answers today.
        """
        with self._lock:
            if self._stopped is not None:
                # Salesforce locks a user out after some ten wrong passwords, and counts refused requests, too.
                raise self._stopped
            if self._clients and self._clients[-1] is not expired:
                return self._clients[-1]
            if expired is not None and not self._credentials.renewable:
                raise AuthenticationError(
                    f"the Salesforce session has expired or was never valid; set a new {ACCESS_TOKEN}"
                )
            try:
                client = connect(self._credentials, self._make_session() if self._make_session is not None else None)
            except AuthenticationError as error:
                self._stopped = error
                raise
            self._forget.append(KNOWN.remember([KnownSecret("the Salesforce session", client.session_id)]))
            self._clients.append(client)
            return client


class _ExpiredError(Exception):
    """The session is not valid any more."""


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


def _found(answer: Any) -> list[dict[str, Any]]:
    """Return the records of a search; API versions before 37 answer with a bare list."""
    return list(answer if isinstance(answer, list) else answer.get("searchRecords", ()))


def _path_of(next_records_url: str) -> str:
    """Return what follows the base in ``/services/data/v59.0/query/01g...-2000``: no other host is ever asked."""
    return "query/" + urlsplit(next_records_url).path.rsplit("/", 1)[-1]


def _count(records: list[dict[str, Any]]) -> int:
    """Count records with their children."""
    children = (v for record in records for v in record.values() if isinstance(v, dict) and "records" in v)
    return len(records) + sum(_count(child["records"]) for child in children)


def _read_refusal(status: int, content: Any, instance: str) -> OrgError | InfrastructureError | _ExpiredError:
    """Classify an error answer: the query's, the session's, or the server's."""
    first = content[0] if isinstance(content, list) and content and isinstance(content[0], dict) else {}
    code, message = str(first.get("errorCode", "")), str(first.get("message", ""))
    # Whatever the code says: a 401 is the session's.
    if status == _EXPIRED:
        return _ExpiredError(f"{code or status}: {message}")
    # The same code also says that too many requests run at once, which passes.
    if code == _USED_UP and _DAILY in message:
        return QuotaError(f"Salesforce ({instance}) gives no more answers: {code}: {message}", status_code=status)
    # Salesforce gives refusals of queries a code; a page of HTML with status 400 has none.
    if code and status < 500 and code not in (*_OVERLOADED, _USED_UP):
        return OrgError(code, message)
    said = f"{code}: {message}" if code else " ".join(str(content).split())[:200]
    return TransportError(f"Salesforce ({instance}) answered HTTP {status}: {said}", status_code=status)


_RENAMED = {"combobox": "picklist", "double": "number", "int": "integer", "long": "integer"}
"""Salesforce's names of types that are not ours; every type without one of our names is text."""


def read_described(descriptions: Iterable[Mapping[str, Any]]) -> OrgSchema:
    """Make a schema of the answers to ``/sobjects/NAME/describe``, in their order."""
    described = list(descriptions)
    children = {
        (str(child["childSObject"]), str(child["field"])): str(child["relationshipName"])
        for parent in described
        for child in parent.get("childRelationships", ())
        if child.get("relationshipName")
    }
    return OrgSchema(tuple(_sobject(each, children) for each in described))


def _sobject(description: Mapping[str, Any], children: Mapping[tuple[str, str], str]) -> SObject:
    name = str(description["name"])
    fields = tuple(_field(each, children.get((name, str(each["name"])))) for each in description.get("fields", ()))
    return SObject(name, fields, str(description.get("keyPrefix") or ""))


def _field(described: Mapping[str, Any], children: str | None) -> Field:
    kind = str(described.get("type", ""))
    return Field(
        name=str(described["name"]),
        description=str(described.get("inlineHelpText") or described.get("label") or ""),
        type=_type(kind, int(described.get("length") or 0)),
        refers_to=tuple(map(str, described.get("referenceTo") or ())),
        relationship=described.get("relationshipName") or None,
        children=children,
    )


def _type(kind: str, length: int) -> FieldType:
    # Salesforce calls both textarea; only the long ones cannot be filtered.
    if kind == "textarea" and length > _LONGEST_TEXT_AREA:
        return "longtext"
    name = _RENAMED.get(kind, kind)
    return cast("FieldType", name) if name in get_args(FieldType) else "text"


_LONGEST_TEXT_AREA = 255


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
