"""``run.json``: the trials and settings of a run, its parts, and the fingerprints of the questions that its trials ask.

Each process that knows the selection writes it once, all of them the same. It tells a trial that was never selected
from one that is missing.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urlsplit

from pytest_a2a_bench.config.load import CORE
from pytest_a2a_bench.config.settings import BUILTIN_PREFIX, GROUPS, Settings
from pytest_a2a_bench.config.values import Shard
from pytest_a2a_bench.model import TrialKey, TrialResult, TrialStatus
from pytest_a2a_bench.model.messages import KeyText, digest
from pytest_a2a_bench.redact import dump_json
from pytest_a2a_bench.results.stats import count
from pytest_a2a_bench.results.store import Store, StoredForm, StoreError, explain, save
from pytest_a2a_bench.text import counted

NAME = "run.json"


@dataclass(frozen=True, slots=True)
class Manifest:
    """The plan of a run: its trials, settings and conditions.

    :param agent: name, version and interface of the agent; ``endpoint`` is where it is, without query.
    :param settings: every setting, secrets excepted (they are never settings).
    :param whole: keys of all selected trials, before they were divided among shards.
    :param keys: keys of this run's part of them.
    :param shard: ``I/N``, or None for the whole.
    :param merged: run ids of the runs that were joined.
    :param order: the seed of the trials' order, where gates may be decided early.
    :param named: whether its trials were named one by one, so that their rate says nothing about the agent's.
    :param categories: of tasks that have one: a trial that has no result counts in its category's rates.
    :param nodeids: the item of each trial -> its key, so that a controller can name the trial of a crashed worker.
    """

    run_id: str
    endpoint: str
    agent: str
    whole: tuple[KeyText, ...]
    keys: tuple[KeyText, ...]
    shard: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    merged: tuple[str, ...] = ()
    nodeids: Mapping[str, KeyText] = field(default_factory=dict)
    order: str = ""
    named: bool = False
    categories: Mapping[str, str] = field(default_factory=dict)

    @property
    def runs(self) -> frozenset[str]:
        """Ids of all runs whose trials are this one's: its own and those that were joined."""
        return frozenset({self.run_id, *self.merged})

    @property
    def card(self) -> tuple[str, str]:
        """What ``agent`` has in one text: the agents' names and versions, and their interfaces."""
        each = [one.rpartition(", A2A ") for one in self.agent.split("; ")]
        if not all(name for name, _, _ in each):
            return self.agent, ""
        interfaces = dict.fromkeys(f"A2A {interface}" for _, _, interface in each)
        return "; ".join(name for name, _, _ in each), "; ".join(interfaces)

    def write(self, directory: Path) -> Path:
        """Write the file, and return its path; raises StoreError if it cannot be written."""
        path = directory / NAME
        save(path, dump_json(RUN.to_json(self)))
        return path


def _wrong(run: Manifest) -> str | None:
    """Describe an entry that no run writes: a trial listed twice, which rates would count twice, or a wrong value.

    Settings of other versions, which this one has not, are kept.
    """
    from pydantic import ValidationError

    twice = [key for key, number in Counter(run.keys).items() if number > 1]
    if twice:
        return f"keys: {twice[0]} is there more than once"
    try:
        _settings_model().model_validate_json(json.dumps(run.settings), strict=True)
    except ValidationError as error:
        return f"settings.{explain(error)}"
    return None


@functools.cache
def _settings_model() -> Any:
    """Return a model of the settings' types; their readers look at this machine, and a run may be of another one."""
    from pydantic import create_model

    types: dict[str, Any] = {name: (get_args(one.annotation)[0], one.default) for name, one in CORE.items()}
    return create_model("Settings", **types)


RUN = StoredForm(
    Manifest,
    " is not a run file that this version reads",
    "run again, or name another results directory",
    StoreError,
    check=_wrong,
)


def load(directory: Path) -> Manifest:
    """Read a results directory's manifest; raises StoreError if there is none, or it cannot be read."""
    if directory.is_file():
        raise StoreError(f"{directory} is neither a results directory nor a file of results that is read here")
    path = directory / NAME
    try:
        return RUN.read(path)
    except FileNotFoundError:
        there = "no such directory" if not directory.is_dir() else "it has no run.json"
        raise StoreError(f"{directory} is not the results directory of a run: {there}") from None


@dataclass(frozen=True, slots=True)
class SelectedResults:
    """A run as it is on disk.

    :param results: of the run's trials, in the order of its keys.
    :param absent: keys of trials that have no file of this run, or one that cannot be read, each with the reason.
    :param others: how many trial files there are beside them, of other selections or runs.
    """

    manifest: Manifest
    results: tuple[TrialResult, ...]
    absent: Mapping[str, str] = field(default_factory=dict)
    others: int = 0

    @property
    def unreadable(self) -> tuple[str, ...]:
        """The problem of each file that cannot be read."""
        return tuple(why for why in self.absent.values() if why != NO_RESULT)

    @property
    def every(self) -> tuple[TrialResult, ...]:
        """The results, and one in place of each absent trial: it was asked for, and counts among the errors."""
        return (*self.results, *(missing(key, self.manifest, why) for key, why in self.absent.items()))


NO_RESULT = "there is no result of it"
CHOSEN = "trials were named one by one (--a2a-missed, --lf or ids), and their rate says nothing about the agent's"
"""Why a run whose manifest is ``named`` is neither kept nor compared."""


def about_others(files: int) -> list[str]:
    """Return a remark about trial files that do not count, if there are any."""
    are, do = ("is", "does") if files == 1 else ("are", "do")
    return [f"{count(files, 'trial file')} {are} of other runs or selections and {do} not count"] if files else []


def missing(text: str, asked: Manifest, why: str) -> TrialResult:
    """Return a trial without a file as not run, and one whose file cannot be read as an error.

    :param text: its key.
    """
    key = TrialKey.parse(text)
    category = asked.categories.get(key.task_key, "")
    status: TrialStatus = "not_run" if why == NO_RESULT else "infrastructure_error"
    return TrialResult(key, status, asked.run_id, error=why, error_type=StoreError.__name__, category=category)


def load_selected(directory: Path) -> SelectedResults:
    """Read a run's results.

    :raises StoreError: if the directory is no run's, or there is no result at all that can be read.
    """
    asked = load(directory)
    found = read_own(asked, directory)
    if not found.results:
        nothing = f"{directory} has no result of its run {asked.run_id}: nothing was finished"
        raise StoreError(next(iter(found.unreadable), nothing))
    files = sum(1 for _ in Store(directory).trials.glob("*.json"))
    return dataclasses.replace(found, others=files - len(found.results) - len(found.unreadable))


def read_own(asked: Manifest, directory: Path) -> SelectedResults:
    """Return the results of a run's trials, and which have none; files of earlier runs are no results."""
    store = Store(directory)
    results: list[TrialResult] = []
    absent: dict[str, str] = {}
    for key in counted(asked.keys, "results read"):
        try:
            result = store.read(TrialKey.parse(key))
        except StoreError as error:
            absent[key] = str(error)
            continue
        if result is not None and result.run_id in asked.runs:
            results.append(result)
        else:
            absent[key] = NO_RESULT
    return SelectedResults(asked, tuple(results), absent)


# --- the fingerprint of a stored result ---
# Trials with one key and one fingerprint ask the same of the same agent. It covers the agent, what it is sent beside a
# conversation, the benchmark's data, this package's version and every setting that may change what is said or how it is
# judged. Settings that only decide how long to wait, or where files go, are left out: a run may be resumed with others.

_GROUPS_WITHOUT_EFFECT = ("a2a: run", "a2a: gates", "a2a: reports", "a2a: protocol")

# How the agent is reached, and how long it is waited for.
_REACHED = """
auth_env ca client_cert client_key client_key_env client_passphrase_env mcp_bind mcp_url oauth_client_id_env
oauth_client_secret_env oauth_method oauth_scopes oauth_token_url proxy redeliver stall_timeout timeout verify_ssl wait
"""
# The endpoint is in the agent's identity, and the user's kind and model are named apart; agents that take part are
# among the parties; each trial has a key and a seed; an extra turn comes after the reward, an estimate beside it.
_ELSEWHERE = """
acts_source agent agent_model agents colleague colleague_auth_env endpoint endpoint_source env_file extra_turn missed
shard suite trials user user_auth_env
"""


def _of_groups(titles: Sequence[str]) -> Iterator[str]:
    title = ""
    for name in CORE:
        title = GROUPS.get(name, title)
        if title in titles:
            yield name


WITHOUT_EFFECT = frozenset({*_of_groups(_GROUPS_WITHOUT_EFFECT), *_REACHED.split(), *_ELSEWHERE.split()} - {"replay"})
"""Settings that a result does not depend on. A setting that is not named here makes a difference: forgetting one costs
a conversation, never a wrong number."""

WITHOUT_EFFECT_BY_DEFAULT = frozenset(
    {"colleague_turns", "judge_times", "reply_limits", "tools", "transfer", "user_guard", "user_retry"}
)
"""Settings whose default is how it always was: results from before there was the option stay good."""

_DEFAULTS = dataclasses.asdict(Settings())


def fingerprint(
    settings: Settings, agent: str, data: str, connection: Mapping[str, Any] | None = None, package: str = ""
) -> str:
    """Return 16 hex digits.

    :param agent: name, version and interface of the agent, from its card.
    :param data: name and version of the benchmark's data.
    :param connection: the messages' metadata, and the client's configuration beside the settings.
    :param package: version of this package.
    """
    return digest({**question(settings, agent, package), "data": data, "connection": dict(connection or {})})


def question(settings: Settings, agent: str, package: str) -> dict[str, Any]:
    """Return the part of a fingerprint that all trials of one agent have in common; see :func:`fingerprint`."""
    values = {k: v for k, v in dataclasses.asdict(settings).items() if k not in WITHOUT_EFFECT}
    values = {k: v for k, v in values.items() if v != _DEFAULTS[k] or k not in WITHOUT_EFFECT_BY_DEFAULT}
    values |= {"user_kind": settings.user_kind, "user_llm": settings.user_llm}
    return {**values, "where": where(settings.endpoint or ""), "agent": agent, "package": package}


def where(endpoint: str) -> str:
    """Return an endpoint in one form, without credentials; its query stays, as it may choose an agent."""
    if endpoint.startswith(BUILTIN_PREFIX):
        return endpoint
    parts = urlsplit(endpoint)
    # On some hosts the query chooses the agent.
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}{query}"


# --- the parts of a run ---


def members(names: Iterable[str], shard: Shard) -> set[str]:
    """Return the names that belong to a part; their order makes no difference."""
    # A hash decides: neighbours in a list are often alike, and one part should not get all of them.
    ordered = sorted(set(names), key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    return set(ordered[shard.index - 1 :: shard.total])
