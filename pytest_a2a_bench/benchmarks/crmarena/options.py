"""CRMArena's own settings, and how they are read."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

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


def split_official(text: str) -> tuple[str, str]:
    """Return the directory and the agent of ``DIR`` or ``DIR:AGENT``."""
    directory, _, agent = text.rpartition(":")
    return (directory, agent) if directory and agent in AGENTS else (text, "react")


def _locate_official(text: str, base: Path) -> str:
    directory, agent = split_official(text)
    return f"{base / Path(directory).expanduser()}:{agent}"


def _locate_data(directory: str, base: Path) -> str:
    return str(base / Path(directory).expanduser())


# "none" can be said on a command line, to undo what a table says.
def _read_drift(text: str) -> str | None:
    return None if one_of("none", *DRIFTS)(text) == "none" else text


@dataclass(frozen=True, slots=True)
class CrmOptions:
    """CRMArena's own settings; their names begin with ``crm_``."""

    data: Annotated[
        str | None, text(read_text), Located(_locate_data), About("Directory with CRMArena's tasks and data", "DIR")
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
