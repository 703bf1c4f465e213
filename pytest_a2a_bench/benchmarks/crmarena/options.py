"""CRMArena's own options: what they are, how they are read, and which do not go together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NamedTuple

from pytest_a2a_bench.configuration.option import Option
from pytest_a2a_bench.configuration.readers import one_of, read_share, read_switch, read_text, whole
from pytest_a2a_bench.settings import Settings

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


@dataclass(frozen=True, slots=True)
class CrmOptions:
    """The values of the options, by their names without ``crm_``.

    :param data: where the published tasks and rows are; None for the mini org only.
    :param org: what answers queries: ``local`` or ``salesforce``.
    :param official: upstream's checkout, to do turn for turn what its code does, and behind a colon which of its agents
        is followed; None for our own rules.
    :param scoring: ``compat`` (upstream's bug for bug) or ``fixed``; where none is named, the profile's.
    :param aided: whether the agent is shown the general domain details too.
    :param drift: how far columns are renamed: ``low``, ``medium``, ``high``; None for not at all.
    :param rot: whether the mini org has its distractor rows.
    :param max_turns: replies of the agent in one conversation with the org.
    :param max_user_turns: messages of the user in an interactive conversation.
    :param threshold: F1 from which a free-text answer counts as a success.
    """

    data: str | None = None
    org: str = "local"
    official: str | None = None
    scoring: str = "fixed"
    aided: bool = False
    drift: str | None = None
    rot: bool = False
    max_turns: int = 20
    max_user_turns: int = 10
    threshold: float = 0.5

    @classmethod
    def of(cls, settings: Settings) -> CrmOptions:
        """Return CRMArena's part of a run's settings."""
        given = settings.benchmark_options
        named = {f.name: given[PREFIX + f.name] for f in fields(cls) if given.get(PREFIX + f.name) is not None}
        return cls(**{"scoring": "compat" if named.get("official") else "fixed", **named})

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


def parse_data(text: str | None) -> DataSpec | None:
    """Read ``DIR``, ``hub``, ``hub@REVISION``, and ``hub:DIR`` or ``hub@REVISION:DIR`` with the rows in DIR.

    A directory that is really called ``hub`` is written ``./hub``.
    """
    if not text:
        return None
    hub = _HUB.fullmatch(text)
    directory = text if hub is None else hub["rows"]
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


# "none" can be said on a command line, to undo what an ini file says.
def _read_drift(text: str) -> str | None:
    level = one_of("none", *DRIFTS)(text)
    return None if level == "none" else level


OPTIONS: tuple[Option, ...] = (
    Option(
        "crm_data",
        "DIR|hub[@REV][:DIR]",
        "CRMArena's tasks and rows: a directory, or tasks of the Hugging Face hub (at a revision) with rows in DIR",
        _read_data,
        locate=_locate_data,
    ),
    Option(
        "crm_org",
        "|".join(ORGS),
        "What answers CRMArena's queries: the files of --a2a-crm-data, or your own Salesforce org",
        one_of(*ORGS),
        default="local",
    ),
    Option(
        "crm_official",
        "DIR[:AGENT]",
        "Do turn for turn what CRMArena's published code does, of which DIR is a checkout; as its agent "
        + ", ".join(AGENTS),
        read_text,
        locate=_locate_official,
    ),
    Option(
        "crm_scoring",
        "|".join(SCORINGS),
        "CRMArena's scoring: upstream's bug for bug (compat, with --a2a-crm-official), or without its bugs (fixed)",
        one_of(*SCORINGS),
    ),
    Option(
        "crm_aided",
        "",
        "Show the general domain details in CRMArena's task message too",
        read_switch,
        flag=True,
        default=False,
    ),
    Option("crm_drift", "none|" + "|".join(DRIFTS), "Rename columns of CRMArena's org", _read_drift),
    Option("crm_rot", "", "Add its distractor rows to CRMArena's mini org", read_switch, flag=True, default=False),
    Option(
        "crm_max_turns", "N", "Turns of the agent after which a CRMArena conversation is ended", whole(1), default=20
    ),
    Option(
        "crm_max_user_turns", "N", "Turns of the user in an interactive CRMArena conversation", whole(1), default=10
    ),
    Option("crm_threshold", "F1", "F1 from which a free-text CRMArena answer is a success", read_share, default=0.5),
)


def _check_official(settings: Settings, chosen: CrmOptions) -> Iterator[str]:
    if not Path(chosen.checkout).is_dir():
        yield (
            f"--a2a-crm-official: {chosen.checkout} is not a directory; it must be a checkout of "
            "https://github.com/SalesforceAIResearch/CRMArena, whose texts are not ours to ship; behind a colon "
            f"may stand one of {', '.join(AGENTS)}"
        )
    plain = CrmOptions(scoring="compat")
    for name in ("scoring", "max_turns", "max_user_turns"):
        if getattr(chosen, name) != getattr(plain, name):
            spelt = name.replace("_", "-")
            yield f"--a2a-crm-official has its own {spelt}: leave out one of it and --a2a-crm-{spelt}"
    if chosen.strategy not in TOOL_STRATEGIES:
        if settings.dialect not in ("auto", "execute_tags"):
            yield f"--a2a-crm-official has its own form of actions: leave out --a2a-dialect={settings.dialect}"
    elif settings.dialect in _org_dialects():
        yield (
            f"--a2a-dialect={settings.dialect} has a query and an answer only, and no tools for --a2a-crm-official "
            f"DIR:{chosen.strategy}: choose tool_call or data"
        )
    elif chosen.strategy == "tool_call_flex" and settings.dialect == "auto":
        yield (
            "--a2a-crm-official DIR:tool_call_flex describes no tools in words, neither here nor upstream: say in "
            "which form the agent is offered them, with --a2a-dialect tool_call or data"
        )
    if settings.tools == "mcp" or settings.colleague:
        yield "--a2a-crm-official knows neither --a2a-tools mcp nor --a2a-colleague"


def _org_dialects() -> tuple[str, ...]:
    # This module is loaded in every pytest run.
    from pytest_a2a_bench.benchmarks.crmarena.actions import ORG_DIALECTS

    return ORG_DIALECTS


def check_options(settings: Settings, listing: bool) -> Iterator[str]:
    """Yield what does not go together.

    :param listing: whether tasks are only to be listed, for which no rows are needed.
    """
    if settings.colleague and settings.dialect in _org_dialects():
        yield f"--a2a-dialect={settings.dialect} has a query and an answer only, and no word for --a2a-colleague"
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
            "local_data/ of upstream's repository in DIR, or --a2a-crm-org salesforce"
        )
    if chosen.org == "local":
        return
    if chosen.data is None:
        yield (
            f"--a2a-crm-org={chosen.org} has rows and no tasks: add --a2a-crm-data DIR (or hub) with those of your org"
        )
    if chosen.drift:
        yield f"--a2a-crm-drift renames the columns of a local org only; leave out --a2a-crm-org={chosen.org}"
