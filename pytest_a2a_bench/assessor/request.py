"""Requests for an assessment, read from an A2A message (pure).

There are three forms:

- AgentBeats: ``{"participants": {"agent": URL}, "config": {...}}``, as JSON text or as a DataPart.
- Tagged, an older AgentBeats: ``<white_agent_url>URL</white_agent_url><env_config>{...}</env_config>`` in prose.
- Flat, as CRMArena's assessor is asked: ``{"white_agent_url": URL, "task_category": "all", "max_tasks": 5, ...}``.

A request is untrusted: members that :class:`Config` does not have are refused, and all problems are reported at once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, get_args
from urllib.parse import urlsplit

from annotated_types import Ge, Gt, Le, Len
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic.types import Strict, StringConstraints
from pydantic_core import ErrorDetails
from typing_extensions import TypedDict

from pytest_a2a_bench.benchmarks.crmarena.options import DRIFTS, SCORINGS
from pytest_a2a_bench.config.settings import (
    BUILTIN_PREFIX,
    DIALECTS,
    HISTORIES,
    PROTOCOLS,
    STREAMING,
    TOOLS,
    TRANSPORTS,
)
from pytest_a2a_bench.model import Part
from pytest_a2a_bench.results.store import described
from pytest_a2a_bench.text import did_you_mean, one_line

Form = Literal["agentbeats", "tagged", "flat"]
Evaluation = Literal["tau2", "crmarena", "conformance"]
EVALUATIONS: tuple[Evaluation, ...] = get_args(Evaluation)

ROLES = ("agent", "white_agent", "purple_agent")
"""Roles by which the agent under test may be called among the participants."""

MAX_CHARACTERS = 64 * 1024
"""Longest text of a request that is read."""

_LONGEST_URL = 2000
_MOST = 10**6


class BadRequest(Exception):
    """A request that cannot be carried out.

    :param problems: everything that is wrong with it, a sentence each.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


# --- the members of a configuration -----------------------------------------------------------------------------------


def _whole(value: Any) -> Any:
    # Protobuf's Struct, which a DataPart is, has no integers: 4 arrives as 4.0.
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _task_id(value: Any) -> Any:
    number = _whole(value)
    return str(number) if type(number) is int and 0 <= number <= 10**9 else value


def _listed(value: Any) -> Any:
    """Return a list where there is one name or number, or names with commas between them."""
    return [name.strip() for name in str(value).split(",")] if type(value) in (str, int) else value


def _categories(value: Any) -> Any:
    names = _listed(value)
    return () if isinstance(names, list) and "all" in names else names


def _unique(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _one_of(*choices: str) -> AfterValidator:
    def check(value: str) -> str:
        if value not in choices:
            raise ValueError(f"one of {', '.join(choices)}")
        return value

    return AfterValidator(check)


_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]
_Switch = Annotated[bool, Strict()]
_Count = Annotated[int, Strict(), Ge(1), Le(_MOST), BeforeValidator(_whole)]
_Index = Annotated[int, Strict(), Ge(0), Le(2**31), BeforeValidator(_whole)]
_Turns = Annotated[int, Strict(), Ge(1), Le(1000), BeforeValidator(_whole)]
_Number = Annotated[float, Strict(), Ge(-_MOST), Le(_MOST)]
_TaskId = Annotated[str, Len(1, 500), BeforeValidator(_task_id)]


def _checked_url(url: str) -> str:
    if problem := url_problem(url):
        raise ValueError(problem)
    return url


class ModelArguments(TypedDict, total=False):
    """Arguments of the user's model that a caller may set; with ``api_base`` the operator's key would go elsewhere."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]

    temperature: _Number
    top_p: _Number
    max_tokens: _Count
    seed: _Index


class Config(BaseModel):
    """The members of a request; None stands for the assessor's default.

    :param agent: URL of the agent under test, or ``builtin:NAME``.
    :param domain: the benchmark's; ``conformance`` has none.
    :param num_tasks: how many of the tasks, from the first.
    :param shard_index: counted from 0, of ``num_shards``.
    :param task_categories: CRMArena's; empty for all.
    :param wait: seconds for an agent that just starts; ``redeliver`` retries of a trial after an uncertain delivery.
    :param agent_token: name of one of the tokens that the operator has for agents, never a token.
    :param retrieval: name of one of upstream's retrieval configurations that the operator offers.
    :param user_retry: how often a trial is retried in which the simulated user was at fault.
    :param scoring: CRMArena's, as ``aided``, ``drift`` and ``rot``.
    :param max_turns: replies of the agent in one conversation with an org; ``max_user_turns`` likewise of its user.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    agent: Annotated[str, Strict(), AfterValidator(_checked_url)] = ""
    evaluation: Annotated[str, _one_of(*EVALUATIONS)] | None = None
    domain: _Text | None = None
    num_tasks: _Count | None = None
    task_ids: Annotated[
        tuple[_TaskId, ...],
        Len(1, 5000),
        AfterValidator(_unique),
        BeforeValidator(lambda given: _listed(_whole(given))),
    ] = ()
    num_trials: Annotated[_Count, Le(100)] = 1
    seed: _Index | None = None
    split: _Text | None = None
    max_steps: _Count | None = None
    user_llm: _Text | None = None
    user_llm_args: ModelArguments = {}
    concurrency: _Turns | None = None
    timeout: Annotated[float, Strict(), Gt(0), Le(_MOST)] | None = None
    dialect: Annotated[str, _one_of(*DIALECTS)] = "auto"
    tools: Annotated[str, _one_of(*TOOLS)] = "text"
    tag_trials: _Switch = False
    shard_index: _Index = 0
    num_shards: _Count = 1
    task_categories: Annotated[
        tuple[_Text, ...], Len(0, 100), AfterValidator(_unique), BeforeValidator(_categories)
    ] = ()
    interactive: _Switch = False
    max_turns: _Turns | None = None
    max_user_turns: _Turns | None = None
    strict: _Switch = False
    wait: Annotated[float, Strict(), Ge(0), Le(600)] | None = None
    redeliver: Annotated[_Index, Le(10)] | None = None
    agent_token: _Text | None = None
    history: Annotated[str, _one_of(*HISTORIES)] = "delta"
    protocol: Annotated[str, _one_of(*PROTOCOLS)] = "auto"
    transport: Annotated[str, _one_of(*TRANSPORTS)] = "auto"
    streaming: Annotated[str, _one_of(*STREAMING)] = "auto"
    max_errors: _Count | None = None
    user_retry: Annotated[_Index, Le(10)] = 0
    retrieval: _Text | None = None
    scoring: Annotated[str, _one_of(*SCORINGS)] | None = None
    aided: _Switch = False
    drift: Annotated[str, _one_of("none", *DRIFTS)] | None = None
    rot: _Switch = False


class Request(Config):
    """A request that is valid by itself; whether the operator offers it is decided elsewhere.

    :param form: which of the three forms it came in.
    """

    agent: str
    form: Form
    evaluation: Evaluation
    domain: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return self.model_dump(mode="json", exclude_defaults=True)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Request:
        """Read the output of :meth:`to_json`; raises BadRequest if this version does not read it."""
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise BadRequest([_explain(one, {}) for one in error.errors()]) from None


_SPELLINGS = {
    "env": "domain",
    "org_type": "domain",
    "max_tasks": "num_tasks",
    "task_split": "split",
    "max_concurrency": "concurrency",
    "retrieval_config": "retrieval",
    "task_category": "task_categories",
}
"""Other platforms' names of members -> ours."""

MEMBERS = (*(name for name in Config.model_fields if name != "agent"), *_SPELLINGS)
"""Every member that a configuration may have."""

_ONLY_TAU2 = {"split", "task_split", "max_steps", "retrieval", "retrieval_config", "max_errors"}
_ONLY_CRMARENA = {
    *("org_type", "task_category", "task_categories", "interactive", "scoring", "aided", "drift", "rot"),
    *("max_turns", "max_user_turns"),
}
_OF_CONFORMANCE = {"evaluation", "domain", "env", "timeout", "wait", "agent_token", "strict"}


def _has_no_meaning(name: str, evaluation: Evaluation) -> bool:
    if evaluation == "conformance":
        return name not in _OF_CONFORMANCE
    return name == "strict" or name in (_ONLY_CRMARENA if evaluation == "tau2" else _ONLY_TAU2)


class _Read(NamedTuple):
    """A request whose members were looked at one by one.

    :param agent: the agent under test, as it is given; ``place`` is the name of the member that gives it.
    :param config: valid members; ``spelt`` has each one's name as the caller spells it.
    :param problems: the problems of the others.
    """

    form: Form
    config: Config
    spelt: Mapping[str, str]
    problems: list[str]


def _read_members(form: Form, agent: Any, place: str, given: Mapping[str, Any], problems: Sequence[str] = ()) -> _Read:
    found = list(problems)
    values: dict[str, Any] = {"agent": agent} if place else {}
    spelt = {"agent": place} if place else {}
    for name, value in given.items():
        if name not in MEMBERS:
            near = did_you_mean(name, MEMBERS)
            found.append(f"{shown(name)} is not known{near or '; known are ' + ', '.join(MEMBERS)}")
            continue
        if value is None:  # as AgentBeats writes what it leaves open
            continue
        member = _SPELLINGS.get(name, name)
        if member in values and values[member] != value:
            found.append(f"{name} contradicts {spelt[member]}; give one of them")
        values[member], spelt[member] = value, name
    try:
        config = Config.model_validate(values)
    except ValidationError as error:
        wrong = {str(one["loc"][0]) for one in error.errors()}
        found += [_explain(one, spelt) for one in error.errors()]
        config = Config.model_validate({k: v for k, v in values.items() if k not in wrong})
    return _Read(form, config, spelt, found)


# --- the three forms --------------------------------------------------------------------------------------------------


_SHAPE = (
    'expected {"participants": {"agent": URL}, "config": {"domain": ...}} as JSON text or data, '
    'or {"white_agent_url": URL, ...}'
)
_TAGGED_URL = re.compile(r"<white_agent_url>(.*?)</white_agent_url>", re.DOTALL)
_TAGGED_CONFIG = re.compile(r"<env_config>(.*?)</env_config>", re.DOTALL)
_FENCED = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n\s*```\s*", re.DOTALL)


def _read(parts: Sequence[Part]) -> _Read:
    texts = [part.text for part in parts if part.kind == "text" and part.text and part.text.strip()]
    data = [part.data for part in parts if part.kind == "data"]
    if sum(map(len, texts)) > MAX_CHARACTERS:
        raise BadRequest([f"the request has {sum(map(len, texts))} characters; at most {MAX_CHARACTERS} are read"])
    if any(_TAGGED_URL.search(text) for text in texts) and not data:
        return _read_tagged("\n".join(texts))
    objects = [value for value in (*data, *map(_read_json, texts)) if isinstance(value, Mapping)]
    if not objects:
        given = f"{one_line(texts[0], 80)!r}" if texts else "no text and no data"
        raise BadRequest([f"this is no request for an assessment ({given}); {_SHAPE}"])
    if len(objects) > 1:
        raise BadRequest([f"the message has {len(objects)} JSON objects; send one request in each message"])
    [asked] = objects
    if "participants" in asked:
        return _read_agentbeats(asked)
    if "white_agent_url" not in asked:
        raise BadRequest([f"the request names no agent under test; {_SHAPE}"])
    config = {name: value for name, value in asked.items() if name != "white_agent_url"}
    return _read_members("flat", asked["white_agent_url"], "white_agent_url", config)


def _read_json(text: str) -> Any:
    fenced = _FENCED.fullmatch(text)
    try:
        return json.loads(fenced[1] if fenced else text)
    except (ValueError, RecursionError):
        return None


def _read_agentbeats(asked: Mapping[str, Any]) -> _Read:
    unknown = [name for name in asked if name not in ("participants", "config")]
    problems = [f"{shown(name)} is not known; known are participants and config" for name in unknown]
    participants, config = asked["participants"], asked.get("config") or {}
    if not isinstance(asked.get("config", {}), Mapping | None):
        problems.append(f"config is {kind_of(asked['config'])}; expected an object")
        config = {}
    if not isinstance(participants, Mapping) or not participants:
        problems.append(f'participants is {kind_of(participants)}; expected {{"agent": URL}}')
        return _read_members("agentbeats", "", "", config, problems)
    [role, *others] = sorted(participants, key=lambda name: name not in ROLES)
    if role not in ROLES or others:
        roles = ", ".join(map(shown, [*others, role][:5]))
        problems.append(f"participants has the roles {roles}; an assessment has one, called agent")
    return _read_members("agentbeats", participants[role], f"participants.{one_line(role, 80)}", config, problems)


def _read_tagged(text: str) -> _Read:
    urls, configs = _TAGGED_URL.findall(text), _TAGGED_CONFIG.findall(text)
    problems = []
    if len(urls) > 1 or len(configs) > 1:
        problems.append("there is more than one <white_agent_url> or <env_config>; send one request in each message")
    config = _read_json(configs[0]) if configs else {}
    if not isinstance(config, Mapping):
        problems.append("what stands in <env_config> is not a JSON object")
        config = {}
    return _read_members("tagged", urls[0].strip(), "white_agent_url", _without_old_names(config), problems)


def _without_old_names(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a configuration of the first tau-bench in the names of today."""
    old = ("user_strategy", "user_model", "user_provider")
    renamed = {k: v for k, v in config.items() if k not in old}
    model, provider = config.get("user_model"), config.get("user_provider")
    if config.get("user_strategy", "llm") == "llm" and isinstance(model, str):
        # "openai" beside "openai/gpt-4o" is the same once.
        prefix = f"{provider}/" if isinstance(provider, str) and provider and "/" not in model else ""
        renamed.setdefault("user_llm", f"{prefix}{model}")
    return renamed


# --- the whole request ------------------------------------------------------------------------------------------------

_DIALECTS: Mapping[tuple[Form, str], str] = {
    ("agentbeats", "tau2"): "agentbeats",
    ("tagged", "tau2"): "sierra",
    ("flat", "crmarena"): "crm_observation",
}
"""Dialect that a form implies for a benchmark where the caller names none. Some agents that were made for these
platforms understand messages of just that wording, so nothing can be learned from their answers."""


def parse(parts: Sequence[Part], domains: Mapping[str, Evaluation]) -> Request:
    """Read the request in the parts of a message.

    :param domains: every domain there is -> its benchmark.
    :raises BadRequest: naming everything that is wrong.
    """
    found = _read(parts)
    config, spelt, problems = found.config, found.spelt, found.problems
    evaluation, domain = _choose_domain(found, domains)
    if evaluation is not None:
        unfit = [name for member, name in spelt.items() if member != "agent" and _has_no_meaning(name, evaluation)]
        problems += [f"{name} means nothing to {evaluation}; leave it out" for name in unfit]
    if config.shard_index >= config.num_shards:
        problems.append(f"shard_index is {config.shard_index} of {config.num_shards} shards; it counts from 0")
    if problems or evaluation is None:
        raise BadRequest(problems)
    values = config.model_dump(exclude_unset=True)
    # Agents that call tools by themselves were made for no dialect.
    if (implied := _DIALECTS.get((found.form, evaluation))) and config.tools != "mcp":
        values.setdefault("dialect", implied)
    values |= {"form": found.form, "evaluation": evaluation, "domain": domain}
    return Request.model_validate(values)


def _choose_domain(found: _Read, domains: Mapping[str, Evaluation]) -> tuple[Evaluation | None, str]:
    """Return the evaluation, None where it is unclear, and the domain's whole name."""
    config, spelt, problems = found.config, found.spelt, found.problems
    known = ", ".join((*domains, "conformance"))
    named, domain = config.evaluation, config.domain
    if domain in ("conformance", None) and (named or domain) == "conformance":
        return "conformance", ""
    if domain is None:
        if named != "crmarena" and (named is not None or (found.form != "flat" and "task_categories" not in spelt)):
            if "domain" not in spelt:
                problems.append(f"config.domain is missing; there are {known}")
            return None, ""
        domain = "mini"
    if config.interactive and f"{domain}_interactive" in domains:
        domain = f"{domain}_interactive"
    evaluation = domains.get(domain)
    if evaluation is None:
        problems.append(f"there is no domain {shown(domain)}; there are {known}")
    elif named is not None and named != evaluation:
        problems.append(f"the domain {domain} belongs to {evaluation}, and evaluation is {named}")
    return evaluation, domain


def url_problem(url: str) -> str:
    """Return the problem of an agent's URL, by its text alone; empty for a good one."""
    if url.startswith(BUILTIN_PREFIX):
        return ""
    if not url or len(url) > _LONGEST_URL:
        return f"the agent's URL is longer than {_LONGEST_URL}" if url else "the agent under test has no URL"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        return f"the agent's URL {shown(url)} cannot be read ({error})"
    if parts.scheme not in ("http", "https") or not host or any(c <= " " for c in url):
        return f"the agent's URL is {shown(url)}; expected http://HOST:PORT/ or https://..."
    return "the agent's URL holds credentials, which do not belong there" if parts.username or parts.password else ""


# --- messages ---------------------------------------------------------------------------------------------------------

_EXPECTED = {
    **dict.fromkeys(("string_type", "string_unicode", "string_too_short", "string_too_long"), "a text"),
    **dict.fromkeys(("int_type", "int_from_float"), "a whole number"),
    "too_short": "one or more",
    "too_long": "fewer",
    "dict_type": "an object",
    "tuple_type": "a list",
    "float_type": "a number",
    "bool_type": "true or false",
}
"""Types of pydantic's errors -> the expected value, in JSON's words."""


def _explain(error: ErrorDetails, spelt: Mapping[str, str]) -> str:
    """Return one of pydantic's errors as a sentence, with the member as the caller spells it."""
    first, *rest = map(str, error["loc"])
    name = one_line(".".join([spelt.get(first, first), *rest]), 80)
    if first == "agent" and error["type"] == "value_error":
        return str(error["ctx"]["error"])
    if error["type"] == "extra_forbidden":
        return f"{name} is not known; known are {', '.join(ModelArguments.__annotations__)}"
    # A caller may have written the token itself by mistake.
    given = error["input"]
    is_shown = first != "agent_token" and not isinstance(given, Mapping | list | tuple | None)
    value = shown(given) if is_shown else kind_of(given)
    # Of a bound pydantic says "Input should be less than or equal to 100".
    reason = error.get("ctx", {}).get("error") or error["msg"].replace("Input should be", "a number")
    return one_line(f"{name} is {value}; expected {_EXPECTED.get(error['type'], reason)}", 400)


def shown(value: object) -> str:
    """Return a value as a message shows it."""
    return one_line(repr(value), 80)


def kind_of(value: Any) -> str:
    """Name the JSON type of a value."""
    return "a text" if isinstance(value, str) else described(value)
