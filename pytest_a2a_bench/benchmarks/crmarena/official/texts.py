"""The texts of upstream's code, read from a checkout of the user's: they are under CC BY-NC and stand nowhere here.

Its modules are parsed and not run, and the constants that texts are made of are taken out of them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from pytest_a2a_bench.benchmarks.crmarena.org.schema import OrgSchema
from pytest_a2a_bench.benchmarks.crmarena.sources import blob_id
from pytest_a2a_bench.benchmarks.crmarena.tasks import AnswerKind, CrmTask
from pytest_a2a_bench.errors import ConfigurationError

PUBLISHED: Mapping[str, str] = {
    "crm_sandbox/agents/prompts.py": "8ca4fe0a2f3adbf99b84da79d2b2c4e68f2684b9",
    "crm_sandbox/agents/chat_agent.py": "59c7a8ae31cfa54157a4947c2a2781858a200dac",
    "crm_sandbox/env/env.py": "41d331d3dc8139d459576bbfcf05b8886086868b",
    "crm_sandbox/env/users.py": "cbcb37121f1f6eafd3896186f05029c49dca6c8f",
    "crm_sandbox/env/connect_sandbox.py": "f6f31e0feb925dbe89e5e3fd26f6003e75dc5d4c",
}
"""The files that decide what happens, and the git blob ids of the version that this profile was certified against."""

_TEXTS = "crm_sandbox/agents/prompts.py"
_SYSTEM = "Salesforce instance"
_PROMPTS: Mapping[str, str] = {
    "act": "ACT_PROMPT",
    "tool_call": "NATIVE_FC_PROMPT",
    "tool_call_flex": "FC_FLEX_PROMPT",
}
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
    """What upstream's code says, to the agent, to the user's model and to its evaluator's.

    :param prompts: the constants of ``prompts.py``, by name.
    :param extractors: the extracting instructions, by the attribute of upstream's evaluator.
    :param privacy: the privacy judge's instructions, and what stands before the agent's actions.
    :param user: the parts of the simulated user's instructions: before and after what it wants, and how that begins.
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

    def system_prompt(
        self,
        task: CrmTask,
        schema: OrgSchema,
        *,
        aided: bool,
        privacy_aware: bool,
        strategy: str = "react",
        described: str = "",
    ) -> str:
        """Write what stands before the question, with the whitespace that upstream has.

        :param strategy: which of upstream's agents is prompted.
        :param described: its tools in words, where the agent has tools and is to write its calls as text.
        """
        name = _PROMPTS.get(strategy) or self._react(task, privacy_aware=privacy_aware)
        # A prompt without a place for the objects passes them over.
        text = self._prompt(name).format(system_description=self._objects(schema), system=_SYSTEM)
        if described:
            text = self._prompt("CUSTOM_FC_PROMPT").format(native_fc_prompt=text, tools_prompt=described)
        if task.required:
            text += self.prompts["SYSTEM_METADATA"].format(system_metadata=task.required, system=_SYSTEM)
        return text + "\n" + task.optional if aided else text

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
                f"crm-official: {_TEXTS} of that checkout has no {name}; check out the version of the guide"
            ) from None

    def user_instructions(self, task: CrmTask) -> str:
        """Write the prompt of the model that plays the user."""
        before, after, label = self.user
        return f"{before}{label}{task.persona or ''} {task.query}\n{after}"


@lru_cache(maxsize=4)
def read_texts(checkout: str) -> OfficialTexts:
    """Read the texts of a checkout.

    :raises ConfigurationError: if it is none, or its code has another shape.
    """
    root = Path(checkout)
    missing = [name for name in PUBLISHED if not (root / name).is_file()]
    if missing:
        raise ConfigurationError(
            f"crm-official: {root} is no checkout of SalesforceAIResearch/CRMArena: it has no {missing[0]}"
        )
    try:
        trees = {name: ast.parse((root / name).read_text(encoding="utf-8")) for name in PUBLISHED}
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
    """Take the f-string around what the user wants, and how that begins."""
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
