"""``crm-official``: CRMArena as its published code runs it, with the texts and functions of the user's own checkout.

The texts are under CC BY-NC and stand nowhere here: the modules are parsed and not run, and the constants that texts
are made of are taken out of them. Conversations go turn for turn as upstream's ChatEnv, InteractiveChatEnv, ToolEnv and
their agents hold them.

The tools of its agent for the original split are its own functions, over an org of ours. The answer to wrong arguments
depends on each line of a function, and these lines may not be shipped. So they are run from the user's checkout: the
functions alone, without the modules that their files import, and only if the file is, byte for byte, the version that
was reviewed.
"""

from __future__ import annotations

import ast
import json
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from pytest_a2a_bench.benchmarks.crmarena import episode as rules
from pytest_a2a_bench.benchmarks.crmarena.actions import EXECUTE, OUTPUT_LABEL, RESPOND, visible_records
from pytest_a2a_bench.benchmarks.crmarena.dialects import read_tool_action
from pytest_a2a_bench.benchmarks.crmarena.episode import Episode
from pytest_a2a_bench.benchmarks.crmarena.options import TOOL_STRATEGIES, CrmOptions
from pytest_a2a_bench.benchmarks.crmarena.org import Org, OrgError, OrgSchema, QueryResult
from pytest_a2a_bench.benchmarks.crmarena.sources import blob_id, blob_of
from pytest_a2a_bench.benchmarks.crmarena.tasks import AnswerKind, CrmTask
from pytest_a2a_bench.benchmarks.models import ModelUser
from pytest_a2a_bench.dialects.serialization import despite_parsers, parse_python
from pytest_a2a_bench.errors import A2ABenchError, ConfigurationError, MissingExtraError
from pytest_a2a_bench.model import AgentSaid, Event, ToolCall, ToolSpec, Turn
from pytest_a2a_bench.text import refusing

PUBLISHED: Mapping[str, str] = {
    "crm_sandbox/agents/prompts.py": "8ca4fe0a2f3adbf99b84da79d2b2c4e68f2684b9",
    "crm_sandbox/agents/chat_agent.py": "59c7a8ae31cfa54157a4947c2a2781858a200dac",
    "crm_sandbox/env/env.py": "41d331d3dc8139d459576bbfcf05b8886086868b",
    "crm_sandbox/env/users.py": "cbcb37121f1f6eafd3896186f05029c49dca6c8f",
    "crm_sandbox/env/connect_sandbox.py": "f6f31e0feb925dbe89e5e3fd26f6003e75dc5d4c",
}
"""The files that decide what happens, and the git blob ids of the version that this profile was certified against."""

_PROMPT_FILE = "crm_sandbox/agents/prompts.py"
_SYSTEM = "Salesforce instance"
_PROMPTS: Mapping[str, str] = {"act": "ACT_PROMPT", "tool_call": "NATIVE_FC_PROMPT", "tool_call_flex": "FC_FLEX_PROMPT"}
_RULES: Mapping[str, str] = {
    "react": "REACT_RULE_STRING",
    "act": "ACT_RULE_STRING",
    "tool_call": "FC_RULE_STRING",
    "tool_call_flex": "FC_RULE_STRING",
}
"""By strategy; the prompt of ``react`` depends on whom the agent faces."""

_EXTRACTORS: Mapping[AnswerKind, str] = {
    "state": "state_system_prompt",
    "month": "month_system_prompt",
    "bant": "bant_system_prompt",
    "stage": "opportunity_stage_system_prompt",
}


@dataclass(frozen=True)
class OfficialTexts:
    """Upstream's prompts, for the agent, for the user's model and for its evaluator's.

    :param prompts: the constants of ``prompts.py``, by name.
    :param extractors: the extracting instructions, by the attribute of upstream's evaluator.
    :param privacy: the privacy judge's instructions, and the text before the agent's actions.
    :param user: the parts of the simulated user's instructions: before and after its request, and how that begins.
    :param greeting: the first message to the simulated user.
    :param files: blob ids of the files that were read.
    """

    prompts: Mapping[str, str]
    extractors: Mapping[str, str]
    privacy: tuple[str, str]
    user: tuple[str, str, str]
    greeting: str
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_published(self) -> bool:
        """Whether every file is the published one that the profile was certified against."""
        return dict(self.files) == dict(PUBLISHED)

    def rule(self, strategy: str = "react") -> str:
        """Return the answer to a reply that is no action."""
        return self._prompt(_RULES[strategy])

    def extractor(self, kind: AnswerKind) -> str:
        """Return the instructions by which answers of a kind are extracted."""
        return self.extractors[_EXTRACTORS.get(kind, "id_system_prompt")]

    def system_prompt(self, task: CrmTask, schema: OrgSchema, chosen: CrmOptions, described: str = "") -> str:
        """Write the text before the question, with upstream's whitespace.

        :param chosen: has which of upstream's agents is prompted, and whether it is aided.
        :param described: its tools in words, where the agent has tools and is to write its calls as text.
        """
        name = _PROMPTS.get(chosen.strategy) or self._react(task, privacy_aware=chosen.privacy_prompt)
        # A prompt without a place for the objects passes them over.
        text = self._prompt(name).format(system_description=self._objects(schema), system=_SYSTEM)
        if described:
            text = self._prompt("CUSTOM_FC_PROMPT").format(native_fc_prompt=text, tools_prompt=described)
        if task.required:
            text += self.prompts["SYSTEM_METADATA"].format(system_metadata=task.required, system=_SYSTEM)
        return text + "\n" + task.optional if chosen.aided else text

    def _react(self, task: CrmTask, *, privacy_aware: bool) -> str:
        audience = "EXTERNAL" if task.kind.external else "INTERNAL"
        aware = "PRIVACY_AWARE_" if privacy_aware and task.kind.external else ""
        return f"REACT_{aware}{audience}_{'INTERACTIVE_' if task.interactive else ''}PROMPT"

    def _objects(self, schema: OrgSchema) -> str:
        fields = ((o.name, "\n".join(f"  - {f.name}: {f.description}" for f in o.fields)) for o in schema.objects)
        return self.prompts["SCHEMA_STRING"].format(
            object_names=", ".join(o.name for o in schema.objects),
            object_fields="\n".join(f"{name}\n{text}" for name, text in fields),
        )

    def _prompt(self, name: str) -> str:
        try:
            return self.prompts[name]
        except KeyError:
            raise ConfigurationError(
                f"crm-official: {_PROMPT_FILE} of that checkout has no {name}; check out the version of the guide"
            ) from None

    def user_instructions(self, task: CrmTask) -> str:
        """Write the prompt of the model that plays the user."""
        before, after, label = self.user
        return f"{before}{label}{task.persona or ''} {task.query}\n{after}"


@lru_cache(maxsize=4)
def read_texts(checkout: str) -> OfficialTexts:
    """Read the texts of a checkout; raises ConfigurationError if it is none, or its code has another shape."""
    root = Path(checkout)
    missing = [name for name in PUBLISHED if not (root / name).is_file()]
    if missing:
        raise ConfigurationError(
            f"crm-official: {root} is no checkout of SalesforceAIResearch/CRMArena: it has no {missing[0]}"
        )
    try:
        trees = {name: parse_python((root / name).read_text(encoding="utf-8")) for name in PUBLISHED}
        evaluator = _class(trees["crm_sandbox/env/env.py"], "Evaluator")
        user = _class(trees["crm_sandbox/env/users.py"], "LLMUserSimulationEnv")
        return OfficialTexts(
            prompts=dict(_constants(trees["crm_sandbox/agents/prompts.py"].body)),
            extractors=_extractors(_function(evaluator, "__init__")),
            privacy=_privacy(_function(evaluator, "compute_privacy_confidential_awareness_score")),
            user=_user(_function(user, "build_system_prompt")),
            greeting=_greeting(_function(user, "reset")),
            files={name: blob_id(root / name) for name in PUBLISHED},
        )
    except (SyntaxError, LookupError, StopIteration, ValueError) as exc:
        raise ConfigurationError(
            f"crm-official: the code in {root} has another shape than the published one "
            f"({type(exc).__name__}: {exc}); check out the version of the guide"
        ) from exc


def _class(tree: ast.Module, name: str) -> ast.ClassDef:
    return next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)


def _function(owner: ast.ClassDef, name: str) -> ast.FunctionDef:
    return next(node for node in owner.body if isinstance(node, ast.FunctionDef) and node.name == name)


def _constants(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for node in body:
        if isinstance(node, ast.Assign) and (text := _text(node.value)) is not None:
            for target in node.targets:
                if isinstance(target, ast.Name | ast.Attribute):
                    yield target.id if isinstance(target, ast.Name) else target.attr, text


def _text(node: ast.AST | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _extractors(init: ast.FunctionDef) -> dict[str, str]:
    """Take the instructions: each is ``template.format(name=constant, ...).strip()``."""
    base = dict(_constants(init.body))["base_system_prompt_template"]
    found = {}
    for node in init.body:
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Attribute):
            continue
        formats = [n for n in ast.walk(node.value) if isinstance(n, ast.Call) and n.keywords]
        if formats:
            values = {k.arg: _text(k.value) for k in formats[0].keywords if k.arg}
            found[node.targets[0].attr] = base.format(**values).strip()
    if not {"id_system_prompt", *_EXTRACTORS.values()} <= found.keys():
        raise LookupError("the evaluator's instructions are not where they were")
    return found


def _privacy(function: ast.FunctionDef) -> tuple[str, str]:
    instructions = dict(_constants(function.body))["system_prompt"]
    joined = next(n.value for n in function.body if isinstance(n, ast.Assign) and isinstance(n.value, ast.BinOp))
    before = _text(joined.left) if isinstance(joined, ast.BinOp) else None
    if before is None:
        raise LookupError("the privacy judge's message is not where it was")
    return instructions, before


def _user(function: ast.FunctionDef) -> tuple[str, str, str]:
    """Take the f-string around the user's request, and how that begins."""
    returned = next(n.value for n in function.body if isinstance(n, ast.Return))
    if not isinstance(returned, ast.JoinedStr):
        raise LookupError("the user's instructions are no f-string any more")
    parts = [_text(value) for value in returned.values]
    at = parts.index(None)
    label = next(
        text
        for node in function.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp)
        for inner in ast.walk(node.value)
        if (text := _text(inner)) is not None and text.strip()
    )
    return "".join(filter(None, parts[:at])), "".join(filter(None, parts[at + 1 :])), label


def _greeting(function: ast.FunctionDef) -> str:
    dicts = [n for n in ast.walk(function) if isinstance(n, ast.Dict)]
    said = [dict(zip(map(_text, d.keys), d.values, strict=True)) for d in dicts]
    text = next(_text(d["content"]) for d in said if _text(d.get("role")) == "user")
    if text is None:
        raise LookupError("the user's greeting is no constant any more")
    return text


PUBLISHED_CODE: Mapping[str, str] = {
    "crm_sandbox/env/functions.py": "ecb58dcf576770834a69660917d359a033a6964b",
    "crm_sandbox/env/__init__.py": "7751e02b335f551314d77505b1d9796811bc2d86",
    "crm_sandbox/agents/utils.py": "e1b972b9b738c69c3cbf81c43940022578b3120c",
    "crm_sandbox/agents/tool_call_agent.py": "7ea66d56f6a195e7880400f52fd05acb838d1534",
}
"""The files of the agent with tools, and the only versions of them that are run (git blob ids)."""

_FUNCTIONS, _LISTS, _TEXTS, _ = PUBLISHED_CODE
_MODULE = "crm_sandbox.env.functions"


@dataclass(frozen=True)
class OfficialTools:
    """Upstream's functions.

    :param functions: by name; each takes its arguments and ``sf_connector``.
    :param fixed: the tools of ``tool_call``, as upstream describes them to a model.
    :param free: those of ``tool_call_flex``, which has queries as well.
    :param described: the fixed tools in words, for agents that write their calls as text.
    :param files: blob ids of the files that they are from.
    """

    functions: Mapping[str, Callable[..., Any]]
    fixed: tuple[ToolSpec, ...]
    free: tuple[ToolSpec, ...]
    described: str
    files: Mapping[str, str]

    def offered_by(self, strategy: str) -> tuple[ToolSpec, ...]:
        """Return the tools of a strategy."""
        return self.free if strategy == "tool_call_flex" else self.fixed


def read_tools(checkout: str) -> OfficialTools:
    """Take the functions out of a checkout.

    :raises ConfigurationError: if it has not the published version of them.
    :raises MissingExtraError: if a package that they import is not installed.
    """
    # The content that is checked is the content that is run.
    texts = {name: _read_published(Path(checkout) / name, blob) for name, blob in PUBLISHED_CODE.items()}
    return _take(texts[_FUNCTIONS], texts[_LISTS], texts[_TEXTS], tuple(PUBLISHED_CODE.items()))


def _read_published(path: Path, published: str) -> str:
    with refusing(f"crm-official: {path} cannot be read"):
        content = path.read_bytes()
    if blob_of(content) != published:
        raise ConfigurationError(
            f"crm-official: {path} is not the published version. The tools are upstream's own functions, and no "
            f"other code is run than the one that was looked at: check out that version (git blob {published[:12]})"
        )
    return content.decode("utf-8")


@lru_cache(maxsize=2)
def _take(functions: str, lists: str, texts: str, files: tuple[tuple[str, str], ...]) -> OfficialTools:
    found = _run_functions(functions)
    fixed, more = _lists(parse_python(lists))
    infos = {name: getattr(found[name], "__info__", None) for name in (*fixed, *more)}
    return OfficialTools(
        {name: found[name] for name in infos},
        tuple(_spec(infos[name]) for name in fixed),
        tuple(_spec(info) for info in infos.values()),
        str(_run(texts, _TEXTS, {}, "fc_prompt_builder")["fc_prompt_builder"]([infos[name] for name in fixed])),
        dict(files),
    )


def _run_functions(text: str) -> dict[str, Callable[..., Any]]:
    try:
        from dateutil.relativedelta import relativedelta
    except ImportError as error:
        raise MissingExtraError("python-dateutil", "crmarena", str(error)) from error
    # Messages of Python's own name the module of a function.
    imported = {"__name__": _MODULE, "datetime": datetime, "defaultdict": defaultdict, "relativedelta": relativedelta}
    found = _run(text, _FUNCTIONS, imported)
    return {name: each for name, each in found.items() if hasattr(each, "__info__")}


def _run(text: str, file: str, space: dict[str, Any], only: str | None = None) -> dict[str, Any]:
    """Run a module's functions and constants, or one function; not its imports, which would reach for Salesforce."""
    tree = parse_python(text)
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.Assign)]
    tree.body = [node for node in tree.body if only is None or getattr(node, "name", None) == only]
    exec(despite_parsers(lambda: compile(tree, file, "exec")), space)
    return space


def _lists(tree: ast.Module) -> Iterator[list[str]]:
    """Return the names in ``TOOLS``, and the ones that ``TOOLS_FULL`` adds."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            lists = [n for n in ast.walk(node.value) if isinstance(n, ast.List)]
            yield [element.id for element in lists[0].elts if isinstance(element, ast.Name)]


def _spec(info: Any) -> ToolSpec:
    function = info["function"]
    return ToolSpec(function["name"], function["description"], function["parameters"])


_FENCES = (re.compile(r"```(?:sql|SQL|soql|SOQL)?([\S\s]+?)```"), re.compile(r"```([\S\s]+?)```"))


def prepare_query(query: str) -> str:
    """Return the query of upstream's connector: a text that begins with FIND as it stands, another without its fence.

    :raises OrgError: for a search in other letters, which upstream sends where only SOQL is understood.
    """
    if query.startswith("FIND"):
        return query
    fenced = [found for fence in _FENCES for found in fence.findall(query)]
    bare = " ".join(fenced[0].split()) if fenced else query
    word = bare.split(None, 1)[0] if bare.split() else ""
    if word.upper() == "FIND":
        raise OrgError("MALFORMED_QUERY", f"unexpected token: {word}")
    return bare


@dataclass(slots=True)
class Connector:
    """The org behind upstream's functions: one of ours, with upstream's form of answers.

    :ivar asked: the answers to this call's queries, None for one that was refused.
    :ivar failure: why the org did not answer; the functions make an answer of every exception.
    """

    org: Org
    asked: list[QueryResult | None] = field(default_factory=list)
    failure: A2ABenchError | None = None

    def run_query(self, query: str) -> tuple[list[dict[str, Any]] | str, int]:
        """Answer one query: its records and 1, or the refusal and 0."""
        try:
            result = self.org.run(prepare_query(query))
        except OrgError as refusal:
            self.asked.append(None)
            return f"{refusal.code}: {refusal.message}", 0
        except A2ABenchError as error:
            self.failure = error
            raise
        self.asked.append(result)
        for key in result.records[0] if result.records else ():
            if not all(key in record for record in result.records):
                raise KeyError(key)  # as upstream's way of leaving out empty columns does
        return visible_records(result.records), 1


def use_tool(tools: Mapping[str, Callable[..., Any]], name: str, arguments: Any, connector: Connector) -> str:
    """Call a tool, and return its output as upstream's environment shows it.

    :raises A2ABenchError: if the org did not answer.
    """
    try:
        seen = tools[name](**arguments, sf_connector=connector)
    # Any exception becomes the tool's error.
    except Exception as error:
        seen = f"Error: {error}"
    if connector.failure is not None:
        raise connector.failure
    return str(seen)


def tools_of(chosen: CrmOptions) -> OfficialTools | None:
    """Return upstream's functions where its agent with tools is followed, else None.

    :raises ConfigurationError: if the checkout has not the published version of them.
    """
    has_tools = chosen.official and chosen.strategy in TOOL_STRATEGIES
    return read_tools(chosen.checkout) if has_tools else None


@dataclass(slots=True)
class OfficialEpisode(Episode):
    """One conversation by upstream's rules.

    :param agent_turn: replies since the agent last spoke to the user.
    """

    agent_turn: int = 0

    def step(self, said: AgentSaid) -> tuple[Event, ...]:
        """Take in one reply, as :meth:`Episode.step` does."""
        self._hear(said)
        if not said.calls:
            reply = self._refuse(said.text or "")
            return () if self._end_turn() else (reply,)
        call = said.calls[0]
        # Asked before the action is carried out, and effective after it.
        last = self._is_last_answer()
        if call.name == EXECUTE:
            seen = self._ask_org(call, str(call.arguments["query"]))
            if last:
                self.ended = rules.MAX_USER_TURNS
            return () if last or self._end_turn() else (seen,)
        self.agent_turn = 0
        return self._answer(str(call.arguments["answer"]))

    def _is_last_answer(self) -> bool:
        # The opening words count for the user's turns, and not for the agent's.
        return self.user is not None and self.counts.user_turns > self.max_user_turns

    def _hear(self, said: AgentSaid) -> None:
        self.findings = []
        self.transcript.append(Turn("agent", text=None if said.calls else said.text or "", calls=said.calls))
        self.agent_turn += 1

    def _spend(self, *, bad: bool = False) -> None:
        self.counts.turns += 1
        self.counts.bad_format += bad

    def _end_turn(self) -> bool:
        if self.agent_turn >= self.max_turns:
            self.ended = rules.MAX_TURNS
        return self.ended is not None


@dataclass(slots=True, kw_only=True)
class OfficialToolEpisode(OfficialEpisode):
    """One conversation with upstream's agent that has tools: twenty replies, each one call.

    :param worth: returns the reply to a submitted answer; its error goes to the agent, and nothing is submitted.
    :param tools: names of the offered tools.
    :param as_text: whether the agent writes its calls as upstream's text form, and reads results in it.
    """

    worth: Callable[[Any], float]
    org: Org
    code: OfficialTools
    tools: frozenset[str]
    as_text: bool

    def step(self, said: AgentSaid) -> tuple[Event, ...]:
        """Take in one reply, as :meth:`Episode.step` does."""
        self._hear(said)
        reply = self._answer_call(said.calls[0]) if said.calls else self._answer_text(said.text or "")
        return () if self.ended or self._end_turn() else (reply,)

    def _answer_call(self, call: ToolCall) -> Event:
        seen = self._use(call.name, call.arguments)
        return self._return(call, self._shown(seen), error=seen.startswith(("Error: ", "Unknown action ")))

    def _answer_text(self, text: str) -> Event:
        action = read_tool_action(text) if self.as_text else None
        if action is None:
            return self._refuse(text)
        # A call with arguments that no call can have; prose is one of respond, to upstream's parser.
        return self._tell(self._shown(self._use(*action)))

    def _shown(self, seen: str) -> str:
        return f"{OUTPUT_LABEL}{seen}" if self.as_text else seen

    def _use(self, name: str, arguments: Any) -> str:
        self._spend(bad=name not in self.tools)
        if name not in self.tools:
            return f"Unknown action {name}"
        if name == RESPOND:
            return self._submit(arguments)
        clock = time.perf_counter()
        connector = Connector(self.org)
        try:
            return use_tool(self.code.functions, name, arguments, connector)
        finally:
            self.counts.queries += len(connector.asked)
            self.counts.query_errors += connector.asked.count(None)
            self.counts.rows_read += sum(result.rows_read for result in connector.asked if result)
            self.counts.query_seconds += time.perf_counter() - clock

    def _submit(self, arguments: Any) -> str:
        try:
            content = arguments["content"]
            self.worth(content)
        # Upstream's environment catches what its evaluator raises, and the agent goes on.
        except Exception as error:
            return f"Error: {error}"
        self.answer = content if isinstance(content, str) else json.dumps(content)
        self.answers += 1
        self.ended = rules.AGENT_STOP
        return "DONE"


def official_user(
    task: CrmTask,
    texts: OfficialTexts,
    model: str,
    arguments: Mapping[str, Any],
    before_turn: Callable[[], Any] = lambda: None,
) -> ModelUser:
    """Return the simulated user by upstream's instructions; its words are passed on as they are."""
    instructions = texts.user_instructions(task)
    return ModelUser(instructions, model, arguments, before_turn, begin=texts.greeting, tidy=str)
