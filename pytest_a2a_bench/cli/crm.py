"""``a2a-bench crm compare-org``: ask a Salesforce org what the local one is held to, and show where it differs."""

from __future__ import annotations

import json
import os
from argparse import ArgumentParser, Namespace
from contextlib import closing

from pytest_a2a_bench.benchmarks.crmarena.org.corpus import CorpusEntry, Difference, count_requests, differences
from pytest_a2a_bench.benchmarks.crmarena.org.corpus import read_corpus as read_all
from pytest_a2a_bench.benchmarks.crmarena.org.salesforce import SalesforceOrg
from pytest_a2a_bench.benchmarks.crmarena.org.salesforce_login import read_credentials
from pytest_a2a_bench.errors import ConfigurationError

# Two pages: what a query finds beyond them is not needed to see how it is understood.
_MOST_ROWS = 4_000


def configure(parser: ArgumentParser) -> None:
    """Declare the subcommands."""
    commands = parser.add_subparsers(dest="what", required=True, metavar="COMMAND")
    compare = commands.add_parser(
        "compare-org",
        help="ask your Salesforce org the corpus that the local org is held to",
        description="Ask the Salesforce org of the SALESFORCE_* variables the corpus of queries that the local org is "
        "held to, and show where it answers otherwise. Only SELECT and FIND are sent. Exit code 0: no difference, 1: "
        "some, 2: could not run.",
    )
    compare.add_argument("--section", metavar="TEXT", default="", help="Only pages of the reference whose name has it")
    compare.add_argument("--list", action="store_true", help="Show the queries and ask nobody")
    compare.add_argument("--format", choices=("text", "json"), default="text", help="Output (text)")


def run(namespace: Namespace) -> int:
    """Ask and print."""
    chosen = [entry for entry in read_all() if namespace.section.lower() in entry.source.lower()]
    if not chosen:
        pages = ", ".join(dict.fromkeys(entry.source.split(",")[0] for entry in read_all()))
        raise ConfigurationError(f"--section {namespace.section!r} is in no page's name; there are: {pages}")
    if namespace.list:
        print("\n".join(f"{entry.source}\t{entry.expected}\t{' '.join(entry.query.split())}" for entry in chosen))
        return 0
    with closing(SalesforceOrg(read_credentials(os.environ), row_limit=_MOST_ROWS)) as org:
        found = list(differences(chosen, org.run))
        _show(namespace.format, org.name, chosen, found)
    return 1 if found else 0


def _show(form: str, org: str, asked: list[CorpusEntry], found: list[Difference]) -> None:
    if form == "json":
        told = [
            {"source": d.entry.source, "query": d.entry.query, "expected": d.entry.expected, "found": d.found}
            for d in found
        ]
        print(json.dumps({"org": org, "asked": count_requests(asked), "differences": told}, indent=2))
        return
    for difference in found:
        entry = difference.entry
        print(
            f"{entry.source}\n  {' '.join(entry.query.split())}\n  expected {entry.expected}; found {difference.found}"
        )
    print(f"{org}: {len(asked)} entries in {count_requests(asked)} queries, {len(found)} answered otherwise")
