"""The terms of an operator, a request made into a plan (settings and the keys of its trials), and the callers, by
bearer tokens from a file or the environment; a token whose line is removed is revoked.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
import hmac
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pytest_a2a_bench.a2a.card import origin_of
from pytest_a2a_bench.a2a.network import Guard, is_loopback
from pytest_a2a_bench.assessor.request import BadRequest, Evaluation, Request
from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.benchmarks.registry import INTERACTIVE, Suite
from pytest_a2a_bench.benchmarks.tau2.retrieval import BEST_OFFLINE, DOMAIN
from pytest_a2a_bench.config.load import REQUEST, Door
from pytest_a2a_bench.config.settings import BUILTIN_PREFIX, Settings
from pytest_a2a_bench.config.values import Shard
from pytest_a2a_bench.errors import A2ABenchError, ConfigurationError
from pytest_a2a_bench.model import BenchTask, TrialKey
from pytest_a2a_bench.redact import KNOWN, KnownSecret
from pytest_a2a_bench.results import manifest
from pytest_a2a_bench.text import listed, one_line, refusing
from pytest_a2a_bench.tool_door import missing_modules

BUILTIN = ("oracle", "noop", "readonly")
"""Built-in agents that callers may ask for: none that pays a model, and no options, some of which import modules."""

_SUITES: tuple[Evaluation, ...] = ("tau2", "crmarena")


@dataclass(frozen=True, slots=True)
class Terms:
    """The limits of callers' requests, and the settings of every assessment.

    :param results: directory of all assessments: one directory each, and their database.
    :param at_once: assessments that run; ``per_caller`` of one caller, and ``waiting`` more that may wait.
    :param max_tasks: most trials of one assessment.
    :param settings: the operator's: judge, benchmarks' data, CRM org and MCP server of every assessment, and its
        highest ``max_steps`` (turns of either side, too), ``concurrency`` and ``timeout``. Others do not count.
    :param seconds: most of an assessment; ``cost`` most dollars of it.
    :param models: models of the user that callers may name; the first is used where they name none.
    :param retrievals: names of upstream's retrieval configurations that callers may name; the first is used where they
        name none. Without any, upstream's default is used if ``is_private``, else what runs no shell and asks no model.
    :param agent_tokens: environment variable -> the origin of agents to which the token in it goes.
    :param guard: which addresses agents and webhooks may have; None for all.
    :param builtin: whether ``builtin:NAME`` is an agent that callers may ask for.
    :param operators: callers who see all callers' assessments, and reports, which show expected answers.
    :param is_private: whether only this machine is served, to everybody on it: they are operators.
    :param door: by which callers come, whose names for settings they are advised with.
    :param keep: days after which an assessment's files are removed; None for never.
    """

    results: Path
    at_once: int = 4
    per_caller: int = 2
    waiting: int = 100
    max_tasks: int = 500
    settings: Settings = field(default_factory=lambda: Settings(concurrency=4))
    seconds: float = 6 * 3600.0
    cost: float | None = None
    models: tuple[str, ...] = ()
    retrievals: tuple[str, ...] = ()
    agent_tokens: Mapping[str, str] = field(default_factory=dict)
    guard: Guard | None = field(default_factory=Guard)
    builtin: bool = False
    keep: float | None = None
    operators: tuple[str, ...] = ()
    is_private: bool = False
    door: Door = REQUEST

    def directory(self, task_id: str) -> Path:
        """Return where the results of an assessment are."""
        return self.results / task_id


@dataclass(frozen=True, slots=True)
class Plan:
    """One assessment before it begins.

    :param keys: of the trials of this shard; ``whole`` of all shards. Empty for the protocol.
    """

    request: Request
    settings: Settings
    keys: tuple[TrialKey, ...] = ()
    whole: tuple[TrialKey, ...] = ()
    door: Door = REQUEST

    @property
    def is_protocol(self) -> bool:
        """Whether the agent's protocol is judged, and no trial run."""
        return self.request.evaluation == "conformance"


def known_domains() -> dict[str, Evaluation]:
    """Return every domain that a request may name -> its benchmark, installed or not."""
    return {domain: name for name in _SUITES for domain in registry.load(name).domains}


def plan(request: Request, terms: Terms, environ: Mapping[str, str]) -> Plan:
    """Make a request into a plan; raises BadRequest naming everything that cannot be done here."""
    problems = [*_agent_problems(request, terms), *_limit_problems(request, terms), *_offer_problems(request, terms)]
    settings = _settings(request, terms)
    whole: list[TrialKey] = []
    if request.evaluation != "conformance":
        suite = registry.load(request.evaluation, settings)
        problems += _suite_problems(suite, request, settings, environ)
        try:
            whole = _choose(suite, request, problems) if not problems else []
        except A2ABenchError as error:
            problems.append(str(error))
        if len(whole) > terms.max_tasks * request.num_shards:
            problems.append(f"{len(whole)} trials are asked for; at most {terms.max_tasks} are run: give num_tasks")
        # Checked before the shards are made: one without trials is no assessment, and their number would be our work.
        if whole and request.num_shards > len(whole):
            problems.append(
                f"num_shards is {request.num_shards}, and {request.domain} has {len(whole)} trials as they are asked "
                "for; give a shard to each trial at most"
            )
    if problems:
        raise BadRequest([one_line(terms.door.words(problem), 400) for problem in problems])
    return Plan(request, settings, _part_of(whole, request), tuple(whole), terms.door)


_TAKEN = (
    *("seed", "split", "max_errors", "dialect", "tools", "history", "protocol", "transport", "streaming"),
    *("user_retry", "tag_trials", "strict", "wait", "redeliver"),
)
"""Members of a request that are settings as they are; where they are None, the setting's default is used."""


def _settings(request: Request, terms: Terms) -> Settings:
    usual, own = Settings(), terms.settings
    model = request.user_llm or next(iter(terms.models), None)
    has_mcp = request.tools == "mcp"
    taken = {name: value for name in _TAKEN if (value := getattr(request, name)) is not None}
    return dataclasses.replace(
        usual,
        **taken,
        endpoint=request.agent,
        endpoint_source="cli",
        suite=(request.domain or "conformance",),
        timeout=min(request.timeout or own.timeout, own.timeout),
        trials=request.num_trials,
        max_steps=request.max_steps or min(usual.max_steps, own.max_steps),
        user=f"llm:{model}" if model else "scripted",
        user_llm_args=dict(request.user_llm_args) if model else {},
        judge_llm=own.judge_llm,
        mcp_bind=own.mcp_bind if has_mcp else None,
        mcp_url=own.mcp_url if has_mcp else None,
        auth_env=request.agent_token if request.agent_token in terms.agent_tokens else None,
        concurrency=min(request.concurrency or own.concurrency, own.concurrency),
        trial_timeout=min(usual.trial_timeout, terms.seconds),
        run_timeout=terms.seconds,
        # Trials that the same assessment finished before a restart are kept without it.
        resume=False,
        shard=f"{request.shard_index + 1}/{request.num_shards}" if request.num_shards > 1 else None,
        benchmark_options=_options(request, terms),
    )


_OF_OPERATOR = ("tau2_data", "crm_data", "crm_org")
"""Benchmarks' options that the operator sets for every assessment."""


def _options(request: Request, terms: Terms) -> dict[str, Any]:
    """Return the benchmarks' own options."""
    # As a run of pytest has them: results of both are then of one fingerprint, and each may resume the other's.
    options: dict[str, Any] = {option.name: option.default for suite in registry.known() for option in suite.options}
    for name, asked in (("crm_max_turns", request.max_turns), ("crm_max_user_turns", request.max_user_turns)):
        options[name] = asked or min(options[name], terms.settings.max_steps)
    given = {
        **{name: terms.settings.benchmark_options.get(name) for name in _OF_OPERATOR},
        "crm_scoring": request.scoring,
        "crm_aided": request.aided,
        "crm_drift": None if request.drift == "none" else request.drift,
        "crm_rot": request.rot,
        "retrieval": _retrieval(request, terms),
    }
    return {**options, **{name: value for name, value in given.items() if value}}


def _retrieval(request: Request, terms: Terms) -> str | None:
    if request.retrieval in terms.retrievals:
        return request.retrieval
    if request.domain != DOMAIN:
        return None
    # Upstream's default asks models that the operator pays, and gives the agent a shell on this machine.
    return next(iter(terms.retrievals), None if terms.is_private else BEST_OFFLINE)


def _agent_problems(request: Request, terms: Terms) -> Iterator[str]:
    """Describe the problems of the agent under test, and of the way in which it is to call tools."""
    is_builtin = request.agent.startswith(BUILTIN_PREFIX)
    if is_builtin and not terms.builtin:
        yield f"{request.agent}: this assessor offers no built-in agents (--allow-builtin); give the agent's URL"
    elif is_builtin and request.agent.removeprefix(BUILTIN_PREFIX) not in BUILTIN:
        yield f"{request.agent} is not offered; of the built-in agents there are {', '.join(BUILTIN)}, without options"
    if is_builtin and request.evaluation == "conformance":
        yield f"{request.agent}: the protocol is judged on an agent with a URL"
    if request.tools != "mcp":
        return
    if missing := missing_modules():
        yield f"tools is 'mcp', which this assessor does not offer: its operator has not installed {', '.join(missing)}"
    if request.dialect != "auto":
        yield "dialect says how calls are written in answers, and with tools 'mcp' the agent makes them: leave it out"
    if terms.settings.mcp_bind is None and not is_builtin and not is_loopback(urlsplit(request.agent).hostname or ""):
        yield "tools is 'mcp', which this assessor offers to agents on its own machine only (setting mcp-bind)"


def _limit_problems(request: Request, terms: Terms) -> Iterator[str]:
    own = terms.settings
    limits = {
        **dict.fromkeys(("max_steps", "max_turns", "max_user_turns"), own.max_steps),
        "concurrency": own.concurrency,
        "timeout": own.timeout,
    }
    for name, most in limits.items():
        value = getattr(request, name)
        if value is not None and value > most:
            yield f"{name} is {value:g}; this assessor allows at most {most:g}"
    if request.user_llm_args and request.user_llm is None and not terms.models:
        yield "user_llm_args are for a model, and user_llm names none"


def _offer_problems(request: Request, terms: Terms) -> Iterator[str]:
    """List the names in a request that the operator does not offer."""
    offers = (
        ("user_llm", request.user_llm, terms.models, "the user is scripted"),
        ("retrieval", request.retrieval, terms.retrievals, "the usual one is used"),
    )
    for name, asked, offered, otherwise in offers:
        if asked is not None and asked not in offered:
            there = ", ".join(offered) or f"none: leave it out, and {otherwise}"
            yield f"{name} is {asked!r}; this assessor offers {there}"
    token = request.agent_token
    if token is None:
        return
    # Never quoted: it may be the token itself, written there by mistake.
    if token not in terms.agent_tokens:
        there = ", ".join(terms.agent_tokens) or "none"
        yield f"agent_token is not the name of a token that this assessor has for agents; there are: {there}"
    elif request.agent.startswith(BUILTIN_PREFIX) or not _is_at(request.agent, terms.agent_tokens[token]):
        yield f"agent_token {token} is for agents at {terms.agent_tokens[token]}, and the agent under test is elsewhere"


def _is_at(url: str, origin: str) -> bool:
    try:
        return origin_of(url) == origin_of(origin)
    except ValueError:
        return False


def _suite_problems(suite: Suite, request: Request, settings: Settings, environ: Mapping[str, str]) -> Iterator[str]:
    if request.domain not in suite.available():
        yield f"the domain {request.domain} {suite.absence(request.domain)}"
        return
    if suite.dialects is not None and settings.dialect not in suite.dialects:
        yield f"dialect {settings.dialect} {suite.why_no_dialect}; there are {', '.join(suite.dialects)}"
    unknown = [name for name in request.task_categories if name not in suite.categories]
    if unknown:
        yield f"task_category names {', '.join(map(repr, unknown))}; there are {', '.join(suite.categories)}"
    if request.interactive and not request.domain.endswith(INTERACTIVE):
        yield f"the domain {request.domain} has no interactive tasks"
    if request.split is not None and request.split not in suite.splits(request.domain):
        yield f"split is {request.split!r}; {request.domain} has {', '.join(suite.splits(request.domain))}"
    yield from suite.check_options(settings)
    yield from suite.preconditions([request.domain], settings, environ)


def _choose(suite: Suite, request: Request, problems: list[str]) -> list[TrialKey]:
    """Return the keys of the trials that are asked for, in the order of the suite's tasks."""
    split = request.split or ("base" if "base" in suite.splits(request.domain) else suite.splits(request.domain)[0])
    tasks = suite.load_tasks(request.domain, split)
    if request.task_ids:
        by_id = {task.task_id: task for task in tasks}
        missing = [task_id for task_id in request.task_ids if task_id not in by_id]
        if missing:
            problems.append(
                f"{request.domain} has no task {listed([*map(repr, missing)], 5)} (its {len(tasks)} are {_span(tasks)})"
            )
        tasks = [by_id[task_id] for task_id in request.task_ids if task_id in by_id]
    if request.task_categories:
        tasks = [task for task in tasks if task.category in request.task_categories]
    if request.num_tasks is not None:
        tasks = tasks[: request.num_tasks]
    if not tasks and not problems:
        problems.append("no task is left of all that is asked for")
    return [task.key(trial) for task in tasks for trial in range(request.num_trials)]


def _span(tasks: Sequence[BenchTask]) -> str:
    ids = sorted((task.task_id for task in tasks), key=lambda name: (int(name) if name.isdecimal() else -1, name))
    return f"{ids[0]} to {ids[-1]}" if ids else "none"


def _part_of(whole: Sequence[TrialKey], request: Request) -> tuple[TrialKey, ...]:
    """Return the trials of the shard that is asked for: the part that ``--a2a-shard`` would run."""
    if request.num_shards == 1:
        return tuple(whole)
    mine = manifest.members(map(str, whole), Shard(request.shard_index + 1, request.num_shards))
    return tuple(key for key in whole if str(key) in mine)


log = logging.getLogger(__name__)

SHORTEST = 16
"""Least characters of a token."""

_NAME = re.compile(r"[A-Za-z0-9_.@-]{1,64}")


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller and its token."""

    name: str
    token: str

    def __repr__(self) -> str:
        return f"<caller {self.name}>"


def read_tokens(text: str, source: str) -> tuple[Caller, ...]:
    """Read ``NAME=TOKEN`` or ``TOKEN``, one on each line or with commas between them; ``#`` begins a comment line.

    :param source: where it was read, for messages.
    :raises ConfigurationError: with each problem, but never a token.
    """
    found: list[Caller] = []
    wrong: list[str] = []
    for number, entry in enumerate(_entries(text), 1):
        name, separator, token = entry.partition("=")
        if not separator or not _NAME.fullmatch(name) or not token:
            # A token may end with the padding of base64.
            name, token = f"caller-{hashlib.sha256(entry.encode()).hexdigest()[:8]}", entry
        if len(token) < SHORTEST or not token.isascii() or any(c <= " " for c in token):
            wrong.append(f"entry {number} is no token of {SHORTEST} or more visible characters")
        elif any(caller.token == token for caller in found):
            wrong.append(f"entry {number} has a token that another one has")
        else:
            found.append(Caller(name, token))
    if wrong or not found:
        raise ConfigurationError(f"{source}: {'; '.join(wrong) or 'there is no token in it'}")
    return tuple(found)


def _entries(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if not line.lstrip().startswith("#"):
            yield from (entry.strip() for entry in line.split(",") if entry.strip())


class Callers:
    """The callers of now.

    :param path: file of tokens; it is read again when it changes.
    :param fixed: callers from the environment.
    """

    def __init__(self, path: Path | None = None, fixed: tuple[Caller, ...] = ()) -> None:
        self._path = path
        self._fixed = fixed
        self._read: tuple[Caller, ...] = ()
        self._stamp: tuple[int, int, int] | None = None
        KNOWN.remember(KnownSecret(f"the token of {caller.name}", caller.token) for caller in fixed)
        if path is not None:
            self._refresh(path, is_first=True)

    @classmethod
    def of(cls, path: Path | None, variable: str | None, environ: Mapping[str, str] = os.environ) -> Callers | None:
        """Read the callers that the options name; None where they name none.

        :raises ConfigurationError: if there is no token where there should be one.
        """
        if path is None and variable is None:
            return None
        fixed: tuple[Caller, ...] = ()
        if variable is not None:
            text = environ.get(variable, "")
            if not text.strip():
                raise ConfigurationError(f"--auth-env names {variable}, which is not set; export {variable}=... first")
            fixed = read_tokens(text, f"--auth-env {variable}")
        return cls(path, fixed)

    def who(self, authorization: str) -> str | None:
        """Return the caller's name, or None for an unknown token.

        Every token is compared, each in constant time, so that the time of the answer tells nothing about them.

        :param authorization: the header's value: ``Bearer TOKEN``, or HTTP basic with the token as password, which is
            what browsers can send.
        """
        given = _token_in(authorization).encode("utf-8", "surrogatepass")
        known = None
        for caller in self._now():
            if hmac.compare_digest(given, caller.token.encode()):
                known = caller.name
        return known

    def _now(self) -> tuple[Caller, ...]:
        if self._path is not None:
            self._refresh(self._path)
        return (*self._fixed, *self._read)

    def _refresh(self, path: Path, *, is_first: bool = False) -> None:
        try:
            with refusing(f"--auth-file {path}: cannot be read"):
                status = path.stat()
                stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
                if stamp == self._stamp:
                    return
                read = read_tokens(path.read_text(encoding="utf-8"), f"--auth-file {path}")
        except ConfigurationError:
            if is_first:
                raise
            if self._read:
                log.error("no token of %s counts any more: it cannot be read", path)
            # A damaged or empty file lets no caller in.
            self._read, self._stamp = (), None
            return
        # Revoked ones stay remembered as secrets: they may still be used elsewhere.
        KNOWN.remember(KnownSecret(f"the token of {caller.name}", caller.token) for caller in read)
        self._read, self._stamp = read, stamp


def _token_in(authorization: str) -> str:
    scheme, _, rest = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return rest.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(rest.strip(), validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeError):
            return ""
    return ""
