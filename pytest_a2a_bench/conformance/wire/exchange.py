"""The evidence of exchanges: bounds, redaction, and the curl line that repeats a request (pure)."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_a2a_bench.conformance.finding import Exchange, Finding
from pytest_a2a_bench.redact import HIDDEN, KNOWN, hide_secrets

SHOWN_BYTES = 65_536
"""Most characters of one body that an exchange keeps as evidence; parsed bodies may be larger."""
BODY_BYTES = 4_000_000
"""Most bytes of a body that are read: twice a page of 100 tasks with artifacts of 20 KB."""
STREAM_BYTES, STREAM_EVENTS = 8_000_000, 2_000
"""Most bytes and events of a stream that are read; a larger stream is cut, and reported as such."""
EVENTS_KEPT = 200
EVENT_BYTES = 8_192
"""Most events of a stream that an exchange keeps as evidence, and most characters of one."""

# A webhook of ours: its last segment is a name that nobody can guess (WebhookReceiver.hook).
_HOOK = re.compile(r'"url": ?"(https?://[^"\s]+)/[\w-]{16}(?:\?[^"]*)?"')
_SECRET_HEADERS = re.compile(r"authoriz|cookie|token|secret|password|api[-_]?key|credential", re.IGNORECASE)
# The client's own, which nobody needs to repeat a request; what a check sends on purpose is kept.
_NOISE = frozenset({"host", "accept-encoding", "connection", "user-agent", "content-length", "accept"})


MORE_TIME = "an agent that is slower needs more time (--a2a-timeout SECONDS)"
# One phrase, because a late answer is recognised by the words of its problem: reports keep only those.
_LATE = "no complete answer within"


def late(seconds: float) -> str:
    """Report that an answer did not come in time."""
    return f"{_LATE} {seconds:g} s"


def is_late(exchange: Exchange) -> bool:
    """Return whether an answer did not come, or did not end, in time."""
    return exchange.problem.startswith(_LATE)


def is_silence(exchange: Exchange, seconds: float) -> bool:
    """Return whether nothing at all came within so many seconds; part of an answer is not silence."""
    # gRPC's response text is also filled by an error of our own making, the deadline; it is no sign that the agent
    # began.
    began = exchange.events or (exchange.response and exchange.binding != "GRPC")
    return exchange.problem == late(seconds) and not began


@dataclass(frozen=True, slots=True)
class Redactor:
    """Removes secrets from evidence.

    :param secrets: values that must appear nowhere.
    """

    secrets: tuple[str, ...] = ()

    def text(self, text: str, limit: int = SHOWN_BYTES) -> str:
        """Return a text without the secrets, bounded."""
        # Cut first: to look for a secret in 8 MB of which 64 KB are kept took 0.6 s an answer, and kept the event loop
        # from reading the others. What is left of a secret at the cut is hidden as well.
        left_out = f"... ({len(text) - limit} more characters)" if len(text) > limit else ""
        return KNOWN.hide(hide_secrets(text[:limit], self.secrets)) + left_out

    def headers(self, headers: Mapping[str, str] | Sequence[tuple[str, str]]) -> dict[str, str]:
        """Return headers without the values that authenticate."""
        # A header may be there twice, and pairs keep both until here; for evidence the last one is enough.
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        return {k: HIDDEN if _SECRET_HEADERS.search(k) else self.text(v) for k, v in pairs}

    def findings(self, findings: Iterable[Finding]) -> list[Finding]:
        """Return findings without the secrets, neither in their words nor in their exchanges."""
        # Without secrets there is nothing to search for; most agents that are judged on a laptop have none.
        return [self._finding(f) for f in findings] if self.secrets else list(findings)

    def _finding(self, finding: Finding) -> Finding:
        words: dict[str, Any] = {n: self.text(getattr(finding, n)) for n in ("found", "expected", "fix", "pointer")}
        return dataclasses.replace(finding, **words, exchanges=tuple(map(self.exchange, finding.exchanges)))

    def exchange(self, exchange: Exchange) -> Exchange:
        """Return an exchange without the secrets."""
        words: dict[str, Any] = {n: self.text(getattr(exchange, n)) for n in ("url", "request", "response", "problem")}
        words |= {n: self.headers(getattr(exchange, n)) for n in ("request_headers", "response_headers")}
        return dataclasses.replace(exchange, **words, events=tuple(map(self.text, exchange.events)))

    def url(self, url: str) -> str:
        """Return a URL without user info and without the secrets."""
        parts = urllib.parse.urlsplit(url)
        # Settings refuse credentials in the endpoint, but an interface's URL is the card's, which may hold anything.
        if "@" in parts.netloc:
            url = parts._replace(netloc=f"{HIDDEN}@{parts.netloc.rpartition('@')[2]}").geturl()
        return self.text(url)


def curl_line(exchange: Exchange) -> str:
    """Return the ``curl`` (or ``grpcurl``) command that repeats a request; secrets stay ``***``."""
    return _grpcurl(exchange) if exchange.binding == "GRPC" else _curl(exchange)


def listener_line(exchange: Exchange) -> str:
    """Return the command that must listen while a request is repeated that names a webhook of ours; else empty."""
    found = _HOOK.search(exchange.request)
    if found is None:
        return ""
    parts = urllib.parse.urlsplit(found.group(1))
    if parts.hostname in ("127.0.0.1", "localhost", "::1"):
        return f"a2a-bench check --listen {parts.netloc}"
    return f"a2a-bench check --listen HOST:PORT, where {parts.scheme}://{parts.netloc} leads to"


def _curl(exchange: Exchange) -> str:
    words = ["curl", "-sS", "-i"]
    # Without -N curl keeps events back until its buffer is full, and a stream looks dead.
    if exchange.events or "event-stream" in exchange.request_headers.get("accept", ""):
        words.append("-N")
    if exchange.http_method not in ("", "GET"):
        words += ["-X", exchange.http_method]
    words += _header_words(exchange.request_headers)
    if exchange.request:
        words += ["--data-raw", exchange.request]
    return " ".join(shlex.quote(w) for w in [*words, exchange.url])


def _grpcurl(exchange: Exchange) -> str:
    scheme, separator, rest = exchange.url.partition("://")
    address = (rest if separator else exchange.url).rstrip("/")
    # grpcurl speaks TLS without this option.
    words = ["grpcurl"] + ([] if scheme in ("https", "grpcs") else ["-plaintext"])
    words += _header_words(exchange.request_headers)
    if exchange.request:
        words += ["-d", exchange.request]
    return " ".join(shlex.quote(w) for w in [*words, address, exchange.method])


def _header_words(headers: Mapping[str, str]) -> list[str]:
    return [w for k, v in headers.items() if k.lower() not in _NOISE for w in ("-H", f"{k}: {v}")]


def dump(value: object) -> str:
    # No ASCII escapes: what an agent said should be readable as it was said.
    """Return JSON text, compact and readable."""
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
