"""What a live org answered, kept as files beside the cassettes of the agent, and an org that answers from them."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from pytest_a2a_bench.benchmarks.crmarena.org.base import Org, OrgError, QueryResult
from pytest_a2a_bench.benchmarks.crmarena.org.schema import OrgSchema
from pytest_a2a_bench.errors import CassetteError
from pytest_a2a_bench.redact import one_line
from pytest_a2a_bench.results.store import save
from pytest_a2a_bench.results.stored import StoredForm
from pytest_a2a_bench.secret import dump_json

SCHEMA_VERSION = 1


@dataclass(slots=True)
class RecordedAnswer:
    """One query and what the org said to it.

    :param query: the text as it was sent.
    :param language: what the query is written in.
    :param records: as the REST API has them; empty where it was refused.
    :param total_size: how many records there are.
    :param rows_read: rows that the answer is made of, children included.
    :param seconds: how long the org took.
    :param refusal: the code and the words of a refusal.
    """

    query: str
    language: Literal["soql", "sosl"] = "soql"
    records: list[dict[str, Any]] = field(default_factory=list)
    total_size: int = 0
    rows_read: int = 0
    seconds: float = 0.0
    refusal: tuple[str, str] | None = None


ORG_ANSWER = StoredForm(
    RecordedAnswer,
    " cannot be replayed: it is no recorded answer of an org",
    "record the org again: --a2a-crm-org salesforce with --a2a-record",
    CassetteError,
    version=SCHEMA_VERSION,
)


def place_of(directory: str, org: str) -> Path:
    """Return where among an agent's cassettes an org's answers are.

    :param org: ``b2b`` and the like; interactive domains ask the same org as the others.
    """
    return Path(directory) / f"org-{org}"


class RecordingOrg:
    """Lets queries through to an org, and keeps its answers. One query has one answer: the last."""

    def __init__(self, org: Org, place: Path) -> None:
        self.name = org.name
        self._org = org
        self._place = place

    @property
    def schema(self) -> OrgSchema:
        """See :class:`~pytest_a2a_bench.benchmarks.crmarena.org.base.Org`."""
        return self._org.schema

    def run(self, text: str) -> QueryResult:
        """Answer one query; what did not reach the org is not kept.

        :raises StoreError: if the answer cannot be written.
        """
        try:
            result = self._org.run(text)
        except OrgError as refusal:
            self._keep(RecordedAnswer(text, refusal=(refusal.code, refusal.message)))
            raise
        records = [dict(record) for record in result.records]
        size, rows, seconds = result.total_size, result.rows_read, round(result.seconds, 6)
        self._keep(RecordedAnswer(text, result.language, records, size, rows, seconds))
        return result

    def close(self) -> None:
        """Close the org."""
        self._org.close()

    def _keep(self, answer: RecordedAnswer) -> None:
        content = {"schema_version": SCHEMA_VERSION, **asdict(answer)}
        save(_file(self._place, answer.query), dump_json(content))


class RecordedOrg:
    """Answers as an org did, if it is asked the same."""

    def __init__(self, place: Path, schema: OrgSchema) -> None:
        self.name = f"recorded:{place.name}"
        self.schema = schema
        self._place = place

    def run(self, text: str) -> QueryResult:
        """Answer one query.

        :raises CassetteError: if the org was not asked that when it was recorded.
        """
        try:
            kept = ORG_ANSWER.read(_file(self._place, text))
        except FileNotFoundError:
            raise CassetteError(
                f"{self._place} has no answer to this query: {one_line(text, 200)}; a recorded org only knows what it "
                "was asked: record it again, with --a2a-crm-org salesforce and --a2a-record"
            ) from None
        if kept.refusal is not None:
            raise OrgError(*kept.refusal)
        return QueryResult(kept.language, tuple(kept.records), kept.total_size, kept.rows_read, kept.seconds)

    def close(self) -> None:
        """Nothing is open."""


def _file(place: Path, query: str) -> Path:
    return place / f"{hashlib.sha256(query.strip().encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.json"
