"""What a platform asks for: three forms of request, read into one value (pure).

- AgentBeats: ``{"participants": {"agent": URL}, "config": {...}}``, as JSON text or as a DataPart.
- Tagged, an older AgentBeats: ``<white_agent_url>URL</white_agent_url><env_config>{...}</env_config>`` in prose.
- Flat, as CRMArena's assessor is asked: ``{"white_agent_url": URL, "task_category": "all", "max_tasks": 5, ...}``.

Everything in them was written by a stranger. What is not listed in :data:`.fields.FIELDS` is refused, and every
problem of a request is told at once.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from pytest_a2a_bench.assessor.fields import FIELDS, Evaluation, kind_of, quoted, shown
from pytest_a2a_bench.model import Part
from pytest_a2a_bench.redact import one_line
from pytest_a2a_bench.settings import BUILTIN_PREFIX

Form = Literal["agentbeats", "tagged", "flat"]

ROLES = ("agent", "white_agent", "purple_agent")
"""Roles by which the agent under test may be called among the participants."""

MAX_CHARACTERS = 64 * 1024
"""Longest text of a request that is read."""

_LONGEST_URL = 2000


class BadRequest(Exception):
    """A request that cannot be carried out.

    :param problems: everything that is wrong with it, a sentence each.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for; None is what the caller left to us.

    :param agent: URL of the agent under test, or ``builtin:NAME``.
    :param form: which of the three forms it came in.
    :param domain: the benchmark's; ``conformance`` has none.
    :param num_tasks: how many of the tasks, from the first.
    :param shard_index: counted from 0, of ``num_shards``.
    :param task_categories: CRMArena's; empty for all.
    :param agent_token: name of one of the tokens that the operator has for agents, never a token.
    :param edition: name of one of the editions of tau2's data that the operator offers; likewise ``retrieval``.
    :param user_retry: how often a trial is held again in which the simulated user was at fault.
    :param scoring: CRMArena's, as ``aided``, ``drift`` and ``rot``.
    :param max_turns: replies of the agent in one conversation with an org; ``max_user_turns`` likewise of its user.
    """

    agent: str
    form: Form
    evaluation: Evaluation
    domain: str = ""
    num_tasks: int | None = None
    task_ids: tuple[str, ...] = ()
    num_trials: int = 1
    seed: int | None = None
    split: str | None = None
    max_steps: int | None = None
    user_llm: str | None = None
    user_llm_args: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    concurrency: int | None = None
    timeout: float | None = None
    dialect: str = "auto"
    tools: str = "text"
    tag_trials: bool = False
    shard_index: int = 0
    num_shards: int = 1
    task_categories: tuple[str, ...] = ()
    interactive: bool = False
    max_turns: int | None = None
    max_user_turns: int | None = None
    strict: bool = False
    agent_token: str | None = None
    history: str = "delta"
    protocol: str = "auto"
    transport: str = "auto"
    streaming: str = "auto"
    max_errors: int | None = None
    user_retry: int = 0
    edition: str | None = None
    retrieval: str | None = None
    scoring: str | None = None
    aided: bool = False
    drift: str | None = None
    rot: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Request:
        """Read what :meth:`to_json` wrote."""
        return cls(**{**data, "task_ids": tuple(data["task_ids"]), "task_categories": tuple(data["task_categories"])})


def parse(parts: Sequence[Part], domains: Mapping[str, Evaluation]) -> Request:
    """Read the request in the parts of a message.

    :param domains: every domain there is -> its benchmark.
    :raises BadRequest: naming everything that is wrong.
    """
    found = _find(parts)
    reading = _Reading(found.config, domains)
    request = reading.request(found)
    problems = [*found.problems, *reading.problems]
    if problems or request is None:
        raise BadRequest(problems)
    return request


# --- which form it is in ----------------------------------------------------------------------------------------------


class _Found(NamedTuple):
    form: Form
    agent: str
    config: Mapping[str, Any]
    problems: tuple[str, ...] = ()


_SHAPE = (
    'expected {"participants": {"agent": URL}, "config": {"domain": ...}} as JSON text or data, '
    'or {"white_agent_url": URL, ...}'
)
_TAGGED_URL = re.compile(r"<white_agent_url>(.*?)</white_agent_url>", re.DOTALL)
_TAGGED_CONFIG = re.compile(r"<env_config>(.*?)</env_config>", re.DOTALL)
_FENCED = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n\s*```\s*", re.DOTALL)


def _find(parts: Sequence[Part]) -> _Found:
    texts = [part.text for part in parts if part.kind == "text" and part.text and part.text.strip()]
    data = [part.data for part in parts if part.kind == "data"]
    if sum(map(len, texts)) > MAX_CHARACTERS:
        raise BadRequest([f"the request has {sum(map(len, texts))} characters; at most {MAX_CHARACTERS} are read"])
    if any(_TAGGED_URL.search(text) for text in texts) and not data:
        return _find_tagged("\n".join(texts))
    objects = [value for value in (*data, *map(_read_json, texts)) if isinstance(value, Mapping)]
    if not objects:
        said = f"{one_line(texts[0], 80)!r}" if texts else "no text and no data"
        raise BadRequest([f"this is no request for an assessment ({said}); {_SHAPE}"])
    if len(objects) > 1:
        raise BadRequest([f"the message has {len(objects)} JSON objects; send one request in each message"])
    asked = objects[0]
    return _find_participants(asked) if "participants" in asked else _find_flat(asked)


def _read_json(text: str) -> Any:
    fenced = _FENCED.fullmatch(text)
    try:
        return json.loads(fenced[1] if fenced else text)
    except (ValueError, RecursionError):
        return None


def _find_tagged(text: str) -> _Found:
    urls, configs = _TAGGED_URL.findall(text), _TAGGED_CONFIG.findall(text)
    problems = []
    if len(urls) > 1 or len(configs) > 1:
        problems.append("there is more than one <white_agent_url> or <env_config>; send one request in each message")
    config = _read_json(configs[0]) if configs else {}
    if not isinstance(config, Mapping):
        problems.append("what stands in <env_config> is not a JSON object")
        config = {}
    return _Found("tagged", urls[0].strip(), _without_old_names(config), tuple(problems))


_OLD_USER = ("user_strategy", "user_model", "user_provider")


def _without_old_names(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a configuration of the first tau-bench in the names of today."""
    told = {k: v for k, v in config.items() if k not in _OLD_USER}
    model, provider = config.get("user_model"), config.get("user_provider")
    if config.get("user_strategy", "llm") == "llm" and isinstance(model, str):
        # "openai" beside "openai/gpt-4o" is the same once.
        prefix = f"{provider}/" if isinstance(provider, str) and provider and "/" not in model else ""
        told.setdefault("user_llm", f"{prefix}{model}")
    return told


def _find_participants(asked: Mapping[str, Any]) -> _Found:
    unknown = [name for name in asked if name not in ("participants", "config")]
    problems = [f"{shown(name)} is not known; known are participants and config" for name in unknown]
    config = asked.get("config") if asked.get("config") is not None else {}
    if not isinstance(config, Mapping):
        problems.append(f"config is {kind_of(config)}; expected an object")
        config = {}
    agent, wrong = _find_agent(asked["participants"])
    return _Found("agentbeats", agent, config, (*problems, *wrong))


def _find_agent(participants: Any) -> tuple[str, list[str]]:
    """Return the URL of the one participant, and what is wrong with them."""
    if not isinstance(participants, Mapping) or not participants:
        return "", [f'participants is {kind_of(participants)}; expected {{"agent": URL}}']
    problems = []
    others = [shown(name) for name in participants if name not in ROLES]
    if others:
        problems.append(f"participants has the role {', '.join(others[:5])}; an assessment has one, called agent")
    mine = [participants[name] for name in ROLES if name in participants]
    if len(mine) > 1:
        problems.append("participants names the agent under test more than once; one is assessed at a time")
    elif mine and not isinstance(mine[0], str):
        problems.append(f"participants.agent is {kind_of(mine[0])}; expected a URL in a text")
    agent = mine[0] if mine and isinstance(mine[0], str) else ""
    return agent, problems


def _find_flat(asked: Mapping[str, Any]) -> _Found:
    config = {name: value for name, value in asked.items() if name != "white_agent_url"}
    if "white_agent_url" not in asked:
        raise BadRequest([f"the request names no agent under test; {_SHAPE}"])
    agent = asked["white_agent_url"]
    if not isinstance(agent, str):
        return _Found("flat", "", config, (f"white_agent_url is {kind_of(agent)}; expected a URL in a text",))
    return _Found("flat", agent, config)


# --- what stands in it ------------------------------------------------------------------------------------------------

_SPOKEN: Mapping[Form, str] = {"agentbeats": "agentbeats", "tagged": "sierra"}
"""How agents are spoken to by whoever asks in a form, where nothing else is said. Some that were made for AgentBeats
find policy and tools only in a first message of just that wording, so nothing can be learned from their answers."""


class _Reading:
    """A configuration while it is read.

    :ivar problems: what is wrong with it.
    """

    def __init__(self, config: Mapping[str, Any], domains: Mapping[str, Evaluation]) -> None:
        self._config, self._domains = config, domains
        self.problems: list[str] = []
        self._values: dict[str, Any] = {}
        self._spelt: dict[str, str] = {}

    def request(self, found: _Found) -> Request | None:
        """Return the request, or None where something is wrong."""
        if found.agent or not found.problems:
            self.problems += url_problems(found.agent)
        for name, value in self._config.items():
            self._take(name, value)
        evaluation = self._evaluation(found.form)
        values = self._values
        values.pop("evaluation", None)
        if evaluation == "conformance":
            values["domain"] = ""
        if evaluation is not None:
            self._see_what_belongs(evaluation)
        if values.get("shard_index", 0) >= values.get("num_shards", 1):
            self.problems.append(
                f"shard_index is {values['shard_index']} of {values.get('num_shards', 1)} shards; it counts from 0"
            )
        if self.problems or evaluation is None:
            return None
        # Agents that call tools by themselves were made for no dialect.
        if evaluation == "tau2" and found.form in _SPOKEN and values.get("tools") != "mcp":
            values.setdefault("dialect", _SPOKEN[found.form])
        return Request(agent=found.agent, form=found.form, evaluation=evaluation, **values)

    def _take(self, name: str, value: Any) -> None:
        field = FIELDS.get(name)
        if field is None:
            self.problems.append(f"config has {shown(name)}, which is not known; known are {', '.join(FIELDS)}")
            return
        if value is None:  # as AgentBeats writes what it leaves open
            return
        try:
            read = field.read(value)
        except ValueError as error:
            told = quoted(value) if field.is_shown else kind_of(value)
            self.problems.append(f"{name} is {told}; expected {error}")
            return
        if field.name in self._values and self._values[field.name] != read:
            self.problems.append(f"{name} contradicts {self._spelt[field.name]}; give one of them")
        self._values[field.name] = read
        self._spelt[field.name] = name

    def _evaluation(self, form: Form) -> Evaluation | None:
        """Return what is to be evaluated, and put the domain's whole name in its place."""
        named, domain = self._values.get("evaluation"), self._values.get("domain")
        if domain in ("conformance", None) and (named or domain) == "conformance":
            return "conformance"
        if domain is None:
            if named == "crmarena" or (named is None and (form == "flat" or "task_categories" in self._values)):
                domain = "mini"
            else:
                if "domain" not in {f.name for n, f in FIELDS.items() if self._config.get(n)}:
                    self.problems.append(f"config.domain is missing; there are {self._known()}")
                return None
        if self._values.get("interactive") and f"{domain}_interactive" in self._domains:
            domain = f"{domain}_interactive"
        evaluation = self._domains.get(domain)
        if evaluation is None:
            self.problems.append(f"there is no domain {shown(domain)}; there are {self._known()}")
        elif named is not None and named != evaluation:
            self.problems.append(f"the domain {domain} belongs to {evaluation}, and evaluation is {named}")
        self._values["domain"] = domain
        return evaluation

    def _known(self) -> str:
        return ", ".join((*self._domains, "conformance"))

    def _see_what_belongs(self, evaluation: Evaluation) -> None:
        for name in self._config:
            field = FIELDS.get(name)
            if field is not None and self._config[name] is not None and evaluation not in field.of:
                self.problems.append(f"{name} means nothing to {evaluation}; leave it out")


def url_problems(url: str) -> Iterator[str]:
    """Say what is wrong with the URL of an agent, by its text alone."""
    if url.startswith(BUILTIN_PREFIX):
        return
    if not url or len(url) > _LONGEST_URL:
        yield "the agent under test has no URL" if not url else f"the agent's URL is longer than {_LONGEST_URL}"
        return
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        yield f"the agent's URL {shown(url)} cannot be read ({error})"
        return
    if parts.scheme not in ("http", "https") or not host or any(c <= " " for c in url):
        yield f"the agent's URL is {shown(url)}; expected http://HOST:PORT/ or https://..."
    elif parts.username or parts.password:
        yield "the agent's URL holds credentials, which do not belong there"
