"""The evidence of exchanges: bounds, redaction, and the curl line that repeats a request (pure)."""

from __future__ import annotations

import dataclasses
import json
import re
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

_SECRET_HEADERS = re.compile(r"authoriz|cookie|token|secret|password|api[-_]?key|credential", re.IGNORECASE)


MORE_TIME = "an agent that is slower needs more time (--a2a-timeout SECONDS)"
FEWER = "the agent limits requests: let it allow more of them, or ask fewer at once ('a2a-bench check --concurrency 1')"
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


def is_limited(exchange: Exchange) -> bool:
    """Return whether the agent refused a request because there were too many."""
    # gRPC's RESOURCE_EXHAUSTED is also our own limit for large answers, which then is the problem.
    limited = 8 if exchange.binding == "GRPC" else 429
    return exchange.status == limited and not (exchange.binding == "GRPC" and exchange.problem)


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
        return self._hidden(text[:limit]) + left_out

    def _hidden(self, text: str) -> str:
        return KNOWN.hide(hide_secrets(text, self.secrets))

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
        """Return an exchange that was recorded, and so is bounded, without the secrets."""
        names = ("url", "request", "response", "problem")
        words: dict[str, Any] = {n: self._hidden(getattr(exchange, n)) for n in names}
        words |= {n: self.headers(getattr(exchange, n)) for n in ("request_headers", "response_headers")}
        return dataclasses.replace(exchange, **words, events=tuple(map(self._hidden, exchange.events)))

    def url(self, url: str) -> str:
        """Return a URL without user info and without the secrets."""
        parts = urllib.parse.urlsplit(url)
        # Settings refuse credentials in the endpoint, but an interface's URL is the card's, which may hold anything.
        if "@" in parts.netloc:
            url = parts._replace(netloc=f"{HIDDEN}@{parts.netloc.rpartition('@')[2]}").geturl()
        return self.text(url)


def dump(value: object) -> str:
    """Return JSON text, compact and readable."""
    # No ASCII escapes: what an agent said should be readable as it was said.
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
