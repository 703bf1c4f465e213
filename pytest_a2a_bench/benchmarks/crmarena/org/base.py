"""What an org is to a benchmark: something that answers SOQL and SOSL, or says why it does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from pytest_a2a_bench.benchmarks.crmarena.org.schema import OrgSchema

Language = Literal["soql", "sosl", "sql"]


class OrgError(Exception):
    """A query that the org refuses, as Salesforce words it: what the agent is told, and no trouble of ours.

    :param code: ``MALFORMED_QUERY``, ``INVALID_FIELD``, ``INVALID_TYPE``, ``MALFORMED_SEARCH``, ``QUERY_TIMEOUT`` ...
    :param message: the text that Salesforce gives, with its row and column frame where it has one.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class QueryResult:
    """What a query found.

    :param records: the records as Salesforce's REST API has them: ``attributes`` first, parents nested, children as
        sub-envelopes.
    :param total_size: how many records match; for ``SELECT COUNT()`` the count, with no records.
    :param rows_read: rows that the answer is made of, children included; measured here.
    """

    language: Language
    records: tuple[Mapping[str, Any], ...]
    total_size: int
    rows_read: int
    seconds: float

    def envelope(self) -> dict[str, Any]:
        """Return the REST API's answer: ``{totalSize, done, records}``, or ``{searchRecords}`` for SOSL."""
        if self.language == "sosl":
            return {"searchRecords": list(self.records)}
        return {"totalSize": self.total_size, "done": True, "records": list(self.records)}


class Org(Protocol):
    """An org. May be asked from several threads at once."""

    name: str

    @property
    def schema(self) -> OrgSchema:
        """What objects and fields there are, as the agent may know them."""
        ...

    def run(self, text: str) -> QueryResult:
        """Answer one query: SOSL if it starts with FIND, otherwise SOQL. Reads only.

        :raises OrgError: if the org refuses the query.
        :raises InfrastructureError: if the org cannot be reached (a live one only).
        """
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...
