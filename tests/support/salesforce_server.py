"""A small server that speaks Salesforce's REST API over any org: login, query, pages, search, errors."""

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from threaded_http import Handler, HttpServer

from pytest_a2a_bench.benchmarks.crmarena.org import Org, OrgError

PASSWORD = "open sesame"
TOKEN = "XYZ"

_STATUS = {"INVALID_SESSION_ID": 401, "REQUEST_LIMIT_EXCEEDED": 403, "NOT_FOUND": 404, "SERVER_UNAVAILABLE": 503}

_LOGIN_ANSWER = """<?xml version="1.0" encoding="UTF-8"?>
<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns="urn:partner.soap.sforce.com">
<soapenv:Body><loginResponse><result><serverUrl>{url}/services/Soap/u/59.0/00D</serverUrl>
<sessionId>{session}</sessionId></result></loginResponse></soapenv:Body></soapenv:Envelope>"""

_LOGIN_REFUSAL = """<?xml version="1.0" encoding="UTF-8"?>
<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/"
xmlns:sf="urn:fault.partner.soap.sforce.com">
<soapenv:Body><soapenv:Fault><faultcode>INVALID_LOGIN</faultcode><detail><sf:LoginFault>
<sf:exceptionCode>INVALID_LOGIN</sf:exceptionCode>
<sf:exceptionMessage>Invalid username, password, security token; or user locked out.</sf:exceptionMessage>
</sf:LoginFault></detail></soapenv:Fault></soapenv:Body></soapenv:Envelope>"""


@dataclass
class SalesforceServer:
    """The server's state, for a test to look at and to change.

    :ivar sessions: session ids that are valid.
    :ivar requests: ``METHOD path`` of everything that was asked, with the query's text behind it.
    :ivar fault: an error code with which the next data requests are answered, and ``fault_words``.
    """

    org: Org
    page_size: int = 2000
    url: str = ""
    sessions: set[str] = field(default_factory=lambda: {"session-0"})
    requests: list[str] = field(default_factory=list)
    fault: str | None = None
    fault_words: str = "TotalRequests Limit exceeded."
    raw: tuple[int, str] | None = None
    logins: int = 0
    attempts: int = 0
    _pages: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def environ(self) -> dict[str, str]:
        """The variables that name this server and a valid session."""
        return {"SALESFORCE_INSTANCE_URL": self.url, "SALESFORCE_ACCESS_TOKEN": "session-0"}

    def login(self, body: str) -> tuple[int, str]:
        self.attempts += 1
        if PASSWORD + TOKEN not in body:
            return 500, _LOGIN_REFUSAL
        self.logins += 1
        session = f"session-{self.logins}"
        self.sessions.add(session)
        return 200, _LOGIN_ANSWER.format(url=self.url, session=session)

    def answer(self, path: str, parameters: Mapping[str, list[str]], session: str) -> tuple[int, Any]:
        try:
            if session not in self.sessions:
                raise OrgError("INVALID_SESSION_ID", "Session expired or invalid")
            if self.fault:
                raise OrgError(self.fault, self.fault_words)
            return 200, self._data(path.strip("/"), parameters)
        except OrgError as error:
            status = _STATUS.get(error.code, 400)
            return status, [{"message": error.message, "errorCode": error.code}]

    def _data(self, path: str, parameters: Mapping[str, list[str]]) -> Any:
        if match := re.fullmatch(r"query/(.+)", path):
            return self._page(match[1])
        if path in ("query", "search"):
            result = self.org.run(parameters["q"][0])
            if path == "search":
                return {"searchRecords": list(result.records)}
            return self._paged({"totalSize": result.total_size, "done": True, "records": list(result.records)})
        raise OrgError("NOT_FOUND", "The requested resource does not exist")

    def _paged(self, envelope: dict[str, Any]) -> dict[str, Any]:
        first, rest = envelope["records"][: self.page_size], envelope["records"][self.page_size :]
        shown = [self._with_paged_children(dict(record)) for record in first]
        answer: dict[str, Any] = {"totalSize": envelope["totalSize"], "done": not rest, "records": shown}
        if rest:
            number = f"01g{next(self._numbers):012}-{self.page_size}"
            self._pages[number] = rest
            answer["nextRecordsUrl"] = f"/services/data/v59.0/query/{number}"
        return answer

    def _with_paged_children(self, record: dict[str, Any]) -> dict[str, Any]:
        for name, value in record.items():
            if isinstance(value, dict) and "records" in value:
                record[name] = self._paged(value)
        return record

    def _page(self, number: str) -> dict[str, Any]:
        if number not in self._pages:
            raise OrgError("INVALID_QUERY_LOCATOR", "invalid query locator")
        records = self._pages.pop(number)
        return self._paged({"totalSize": len(records), "records": records})


class _Handler(Handler):
    @property
    def state(self) -> SalesforceServer:
        return self.server.state  # type: ignore[attr-defined, no-any-return]

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        parameters = parse_qs(parts.query)
        self.state.requests.append(" ".join(["GET", parts.path, *parameters.get("q", [])]))
        if self.state.raw is not None:
            status, text = self.state.raw
            self.answer(status, text.encode(), "text/html")
            return
        data = re.fullmatch(r"/services/data/v[\d.]+/(.*)", parts.path)
        session = self.headers.get("Authorization", "").removeprefix("Bearer ")
        status, body = self.state.answer(data[1] if data else "", parameters, session)
        counted = {"Sforce-Limit-Info": f"api-usage={len(self.state.requests)}/15000"}
        self.answer(status, json.dumps(body).encode(), headers=counted)

    def do_POST(self) -> None:
        body = self.body().decode()
        self.state.requests.append(f"POST {self.path}")
        if self.path.startswith("/services/Soap/u/"):
            status, text = self.state.login(body)
            self.answer(status, text.encode(), "text/xml")
        else:
            self.answer(405, b"[]")


@contextmanager
def serve(org: Org, *, page_size: int = 2000) -> Iterator[SalesforceServer]:
    with HttpServer(_Handler) as server:
        state = SalesforceServer(org, page_size, server.url)
        server.state = state  # type: ignore[attr-defined]
        yield state


def redirected(server: SalesforceServer) -> Any:
    """Return a session for which every host of Salesforce's is the test's server."""
    import requests
    from requests.adapters import HTTPAdapter

    class ToServer(HTTPAdapter):  # type: ignore[misc]
        def send(self, request: Any, *args: Any, **kwargs: Any) -> Any:
            request.url = server.url + urlsplit(request.url)._replace(scheme="", netloc="").geturl()
            return super().send(request, *args, **kwargs)

    session = requests.Session()
    session.mount("https://", ToServer())
    return session


REDIRECTING = """
import os
from urllib.parse import urlsplit

from requests.adapters import HTTPAdapter

_send = HTTPAdapter.send


def send(self, request, *args, **kwargs):
    if request.url.startswith("https:"):
        path = urlsplit(request.url)._replace(scheme="", netloc="").geturl()
        request.url = os.environ["SALESFORCE_TEST_SERVER"] + path
    return _send(self, request, *args, **kwargs)


HTTPAdapter.send = send
"""
"""A conftest for processes of their own that log in by a password: every host of Salesforce's is the test's server."""
