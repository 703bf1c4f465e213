"""CRMArena's own settings, how they are read, and which of them conflict."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field

from pytest_a2a_bench.config.setting import About, Located, choice, text
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.config.values import one_of, read_text

SCORINGS = ("compat", "fixed")
STRATEGIES = ("react", "act", "tool_call", "tool_call_flex")
TOOL_STRATEGIES = STRATEGIES[2:]
PRIVACY_AWARE = "react+privacy"
"""``react`` by upstream's privacy-aware prompt, which agents get that face customers."""
AGENTS = (STRATEGIES[0], PRIVACY_AWARE, *STRATEGIES[1:])
DRIFTS = ("low", "medium", "high")
ORGS = ("local", "salesforce")

PREFIX = "crm_"

# A revision holds no colon, so that what follows one is a directory.
_HUB = re.compile(r"hub(?:@(?P<revision>[^:@\s]+))?(?::(?P<rows>.+))?", re.DOTALL)


def split_official(text: str) -> tuple[str, str]:
    """Return the directory and the agent of ``DIR`` or ``DIR:AGENT``."""
    directory, _, agent = text.rpartition(":")
    return (directory, agent) if directory and agent in AGENTS else (text, "react")


def _locate_official(text: str, base: Path) -> str:
    directory, agent = split_official(text)
    return f"{base / Path(directory).expanduser()}:{agent}"


class DataSpec(NamedTuple):
    """The value of ``--a2a-crm-data``.

    :param hub: whether tasks and schema come from the hub.
    :param directory: the directory; for the hub the one that has the rows, or None.
    """

    hub: bool
    directory: Path | None
    revision: str | None = None


def parse_data(given: str | None) -> DataSpec | None:
    """Read ``DIR``, ``hub``, ``hub@REVISION``, and ``hub:DIR`` or ``hub@REVISION:DIR`` with the rows in DIR.

    A directory that is really called ``hub`` is written ``./hub``.
    """
    if not given:
        return None
    hub = _HUB.fullmatch(given)
    directory = given if hub is None else hub["rows"]
    found = Path(directory).expanduser() if directory else None
    return DataSpec(hub is not None, found, hub["revision"] if hub else None)


def _read_data(text: str) -> str:
    if re.match(r"hub[@:]", text) and not _HUB.fullmatch(text):
        raise ValueError(f"{text!r} is no source on the hub; expected hub, hub@REVISION, hub:DIR or hub@REVISION:DIR")
    return read_text(text)


def _locate_data(source: str, base: Path) -> str:
    where = parse_data(source)
    if where is None or where.directory is None:
        return source
    return (f"{source.partition(':')[0]}:" if where.hub else "") + str(base / where.directory)


# "none" can be said on a command line, to undo what a table says.
def _read_drift(text: str) -> str | None:
    level = one_of("none", *DRIFTS)(text)
    return None if level == "none" else level


@dataclass(frozen=True, slots=True)
class CrmOptions:
    """CRMArena's own settings; their names begin with ``crm_``."""

    data: Annotated[
        str | None,
        text(_read_data),
        Located(_locate_data),
        About(
            "CRMArena's tasks and data: a directory, or tasks of the Hugging Face hub with data in DIR",
            "DIR|hub[@REV][:DIR]",
        ),
    ] = None
    org: Annotated[
        str, *choice(*ORGS), About("Org that answers queries: the files of crm-data, or your Salesforce org")
    ] = "local"
    official: Annotated[
        str | None,
        text(read_text),
        Located(_locate_official),
        About(
            "Checkout of CRMArena's published code, whose rules are followed; AGENT is one of its agents", "DIR[:AGENT]"
        ),
    ] = None
    scoring: Annotated[
        str,
        *choice("auto", *SCORINGS),
        About("Scoring: upstream's with its bugs (compat; auto with crm-official) or without (fixed)"),
    ] = "auto"
    aided: Annotated[bool, About("Show the general domain details in the task message")] = False
    drift: Annotated[str | None, text(_read_drift), About("Rename columns of the org", "none|low|medium|high")] = None
    rot: Annotated[bool, About("Add distractor rows to the mini org")] = False
    max_turns: Annotated[int, Field(ge=1), About("Turns of the agent after which a conversation ends", "N")] = 20
    max_user_turns: Annotated[int, Field(ge=1), About("Turns of the user in an interactive conversation", "N")] = 10
    threshold: Annotated[float, Field(gt=0, le=1), About("F1 from which a free-text answer is a success", "F1")] = 0.5

    @classmethod
    def of(cls, settings: Settings) -> CrmOptions:
        """Return CRMArena's part of a run's settings."""
        given = settings.benchmark_options
        named = {f.name: given[PREFIX + f.name] for f in fields(cls) if given.get(PREFIX + f.name) is not None}
        if named.get("scoring", "auto") == "auto":
            named["scoring"] = "compat" if named.get("official") else "fixed"
        return cls(**named)

    @property
    def profile(self) -> str:
        """Whose rules are followed: ``strict`` for ours, ``official`` for upstream's."""
        return "official" if self.official else "strict"

    @property
    def checkout(self) -> str:
        """The directory of upstream's checkout."""
        return split_official(self.official or "")[0]

    @property
    def strategy(self) -> str:
        """Which of upstream's agents is followed, by upstream's own name."""
        return split_official(self.official or "")[1].removesuffix("+privacy")

    @property
    def privacy_prompt(self) -> bool:
        """Whether agents that face customers get upstream's privacy-aware prompt."""
        return split_official(self.official or "")[1] == PRIVACY_AWARE


def _check_official(settings: Settings, chosen: CrmOptions) -> Iterator[str]:
    if not Path(chosen.checkout).is_dir():
        yield (
            f"crm-official: {chosen.checkout} is not a directory; it must be a checkout of "
            "https://github.com/SalesforceAIResearch/CRMArena, whose texts are not ours to ship; behind a colon "
            f"may stand one of {', '.join(AGENTS)}"
        )
    plain = CrmOptions(scoring="compat")
    for name in ("scoring", "max_turns", "max_user_turns"):
        if getattr(chosen, name) != getattr(plain, name):
            spelt = name.replace("_", "-")
            yield f"crm-official has its own {spelt}: leave out one of it and crm-{spelt}"
    if chosen.strategy not in TOOL_STRATEGIES:
        if settings.dialect not in ("auto", "execute_tags"):
            yield f"crm-official has its own form of actions: leave out --a2a-dialect={settings.dialect}"
    elif settings.dialect in _org_dialects():
        yield (
            f"--a2a-dialect={settings.dialect} has a query and an answer only, and no tools for crm-official "
            f"DIR:{chosen.strategy}: choose tool_call or data"
        )
    elif chosen.strategy == "tool_call_flex" and settings.dialect == "auto":
        yield (
            "crm-official DIR:tool_call_flex describes no tools in words, neither here nor upstream: say in "
            "which form the agent is offered them, with --a2a-dialect tool_call or data"
        )
    if settings.tools == "mcp" or settings.colleague:
        yield "crm-official knows neither --a2a-tools mcp nor colleagues"


def _org_dialects() -> tuple[str, ...]:
    # This module is loaded in every pytest run.
    from pytest_a2a_bench.benchmarks.crmarena.actions import ORG_DIALECTS

    return ORG_DIALECTS


def check_options(settings: Settings, listing: bool) -> Iterator[str]:
    """Yield what does not go together.

    :param listing: whether tasks are only to be listed, for which no rows are needed.
    """
    if settings.colleague and settings.dialect in _org_dialects():
        yield f"--a2a-dialect={settings.dialect} has a query and an answer only, and no word for a colleague"
    chosen = CrmOptions.of(settings)
    if chosen.official:
        yield from _check_official(settings, chosen)
    where = parse_data(chosen.data)
    if where is not None and where.directory is not None and not where.directory.is_dir():
        yield f"--a2a-crm-data: {where.directory} is not a directory; it must be one with CRMArena's files"
    # A listing needs no rows.
    elif where is not None and where.directory is None and chosen.org == "local" and not listing:
        yield (
            f"--a2a-crm-data={chosen.data}: the hub has tasks but no rows of an org: pass {chosen.data}:DIR with "
            "local_data/ of upstream's repository in DIR, or crm-org salesforce"
        )
    if chosen.org == "local":
        return
    if chosen.data is None:
        yield (f"crm-org={chosen.org} has rows and no tasks: add --a2a-crm-data DIR (or hub) with those of your org")
    if chosen.drift:
        yield f"crm-drift renames the columns of a local org only; leave out crm-org={chosen.org}"
