"""Certify ``crm-official``: scripted agents through upstream's own code and through ours, compared.

    PYTHONPATH=tools python perf/crm_official.py CHECKOUT [--strategy react|act|tool_call|tool_call_flex] [--rounds N]
                                         [--seed N]
                                         [--domain mini|b2b|...] [--data DIR]

CHECKOUT is a checkout of SalesforceAIResearch/CRMArena. Its ``ChatAgent`` with ``ChatEnv`` and ``InteractiveChatEnv``
runs as it stands; only what it reaches out to is replaced: Salesforce by the local org, and the three models (agent,
user, evaluator) by the same scripts on both sides. So does its ``ToolCallAgent`` with ``ToolEnv``, whose model calls
tools in words and by its provider's interface (``crm_official_tools``). For each conversation are compared: every
message that the agent was sent, the tools that it was offered, every request to the user's and the evaluator's model,
the reward, the agent's replies and the user's turns.

Known to differ, and not scripted: where upstream's code raises (a search over objects with different fields, a model
that answers nothing), and ROUGE and BLEU, which decide nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import itertools
import os
import random
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from crm_official_tools import NATIVE, heard_natively, run_tools_upstream, says, write_calls
from mini_org.org import schema_rows, task_row
from mini_org.solve import choose_steps
from mini_org.solve.task import AgentTask

from pytest_a2a_bench.benchmarks.base import TrialContext
from pytest_a2a_bench.benchmarks.crmarena.benchmark import BENCHMARK
from pytest_a2a_bench.benchmarks.crmarena.domains import OpenDomain, open_domain
from pytest_a2a_bench.benchmarks.crmarena.options import STRATEGIES
from pytest_a2a_bench.benchmarks.crmarena.org import OrgError
from pytest_a2a_bench.benchmarks.crmarena.tasks import CrmTask
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.language_models import import_litellm
from pytest_a2a_bench.model import Part, TrialKey

# Of the sort that upstream's agent sends without a system role: one message begins the conversation, as in A2A.
_ROLELESS_MODEL = "o1-mini"
_STUBS = ("together", "dotenv", "tqdm", "rouge", "simple_salesforce", "datasets")


@dataclass
class Script:
    """What the agent, the user's model and the evaluator's model say in one conversation, in order."""

    agent: Sequence[str]
    user: Sequence[str]
    evaluator: Sequence[str]


@dataclass
class Seen:
    """What one side did."""

    agent: list[str] = field(default_factory=list)
    user: list[list[dict[str, str]]] = field(default_factory=list)
    evaluator: list[list[dict[str, str]]] = field(default_factory=list)
    reward: float | None = None
    replies: int = 0
    user_turns: int = 0
    tools: list[Any] = field(default_factory=list)


# --- scripts ----------------------------------------------------------------------------------------------------------


def write_script(task: CrmTask, domain: OpenDomain, rng: random.Random) -> Script:
    """Write one conversation: sensible, clumsy or endless."""
    queries = [
        *_sensible(task, domain),
        "SELECT Id, Nothing FROM Case",
        "SELECT Id FROM Nowhere",
        "SELECT COUNT() FROM Case",
    ]
    queries += [
        "FIND {power} IN ALL FIELDS RETURNING Knowledge__kav(Id, Title)",
        "find {x} IN ALL FIELDS RETURNING Case(Id)",
    ]
    queries += ["SELECT Id FROM Case LIMIT 0", "SELECT Id, OwnerId FROM Case ORDER BY Id LIMIT 3", "", "not a query"]
    answers = [*task.answers, ", ".join(task.answers) or "None", "None", "I cannot share this.", "It is 42.", '"None"']
    answers += ['{"answer": ["None"]}', "The answer is " + (task.answers[0] if task.answers else "secret") + "."]
    forms = (
        lambda: f"<execute> {rng.choice(queries)} </execute>",
        lambda: f"<thought> I look it up. </thought>\n<execute> {rng.choice(queries)} </execute>",
        lambda: f"<execute>\n```sql\n{rng.choice(queries)}\n```\n</execute>",
        lambda: f"<execute>```{rng.choice(queries)}```</execute> and more words",
        lambda: f"<respond> {rng.choice(answers)} </respond>",
        lambda: f"<thought> done </thought>\n<respond>{rng.choice(answers)}</respond>\n",
        lambda: f"<respond>{rng.choice(answers)}</respond><execute>{rng.choice(queries)}</execute>",
        lambda: f"<execute></execute><respond>{rng.choice(answers)}</respond>",
        lambda: f"<execute>{rng.choice(queries)}",
        lambda: f'{{"action": "respond", "answer": "{rng.choice(answers)}"}}',
        lambda: rng.choice(["None", "What do you mean?", "<respond> </respond>", "<EXECUTE>x</EXECUTE>"]),
    )
    talkative = (4, 5, 7) if rng.random() < 0.3 else ()
    weights = [1 if not talkative or index not in talkative else 12 for index in range(len(forms))]
    if rng.random() < 0.25:  # one that never answers
        weights = [0 if index in (4, 5, 6, 7) else 1 for index in range(len(forms))]
    agent = [rng.choices(forms, weights)[0]() for _ in range(260)]
    lines = [
        " And please for last year.",
        "Hm. \n",
        "The id, please.",
        "Thank you ###STOP###",
        "###STOP###",
        "It is about cases.",
    ]
    patient = rng.random() < 0.5
    user = ["Hello, I have a question."] + [rng.choice(lines[:3] if patient else lines) for _ in range(40)]
    gold = list(task.answers) or ["None"]
    replies = ['{"extracted_answers": ' + str(gold).replace("'", '"') + "}", '{"extracted_answers": ["None"]}', "YES"]
    replies += [
        '```json\n{"extracted_answers": ["None"]}\n```',
        "NO",
        "NO (eyes only)",
        "None",
        '{"extracted_answers": [null]}',
        "42",
    ]
    return Script(agent, user, [rng.choice(replies) for _ in range(5)])


def _sensible(task: CrmTask, domain: OpenDomain) -> list[str]:
    """Return the queries that the reference solver makes."""
    made: list[str] = []
    with contextlib.suppress(StopIteration, ValueError, LookupError, OrgError):
        steps = choose_steps(AgentTask(task.query, task.required))
        query = next(steps)
        while len(made) < 10:
            made.append(query)
            query = steps.send([dict(record) for record in domain.org.run(query).records])
    return made


# --- upstream's side --------------------------------------------------------------------------------------------------


class LocalSalesforce:
    """Upstream's connection to Salesforce, answered by the local org."""

    org: Any = None

    def __init__(self, **_: Any) -> None:
        pass

    def query_all(self, query: str) -> dict[str, Any]:
        """Answer SOQL, and nothing else."""
        if query.strip()[:4].upper() == "FIND":
            raise RuntimeError(_refusal("MALFORMED_QUERY", f"unexpected token: {query.split()[0]}"))
        return {"records": self._run(query)}

    def search(self, query: str) -> dict[str, Any]:
        """Answer SOSL."""
        return {"searchRecords": self._run(query)}

    def _run(self, query: str) -> list[dict[str, Any]]:
        try:
            return [dict(record) for record in self.org.run(query).records]
        except OrgError as error:
            raise RuntimeError(_refusal(error.code, error.message)) from error


def _refusal(code: str, message: str) -> str:
    return f"Malformed request. Response content: {[{'message': message, 'errorCode': code}]}"


class _Anything(types.ModuleType):
    """A module that upstream imports and that these conversations never use."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__init__": lambda self, *a, **k: None})


class _Rouge:
    def get_scores(self, *, hyps: str, **_: Any) -> list[dict[str, dict[str, float]]]:
        if not hyps:
            raise ValueError("Hypothesis is empty.")  # as the package does
        return [{name: {"f": 0.0} for name in ("rouge-1", "rouge-2", "rouge-l")}]


def import_upstream(checkout: str) -> tuple[Any, Any, Any]:
    """Import upstream's agent, environments and user from a checkout."""
    for name in _STUBS:
        sys.modules[name] = _Anything(name)
    sys.modules["rouge"].Rouge = _Rouge  # type: ignore[attr-defined]
    sys.modules["simple_salesforce"].Salesforce = LocalSalesforce  # type: ignore[attr-defined]
    for name in ("USERNAME", "PASSWORD", "SECURITY_TOKEN"):
        os.environ[f"SALESFORCE_B2B_{name}"] = os.environ[f"SALESFORCE_{name}"] = "x"
    sys.path.insert(0, checkout)
    names = ("crm_sandbox.agents.chat_agent", "crm_sandbox.env.env", "crm_sandbox.env.users")
    with contextlib.redirect_stdout(io.StringIO()):
        agent, env, users = (importlib.import_module(name) for name in names)
    # Its strategy ``act`` uses a text that it forgot to import, and raises at the first reply that is no action.
    agent.ACT_RULE_STRING = importlib.import_module("crm_sandbox.agents.prompts").ACT_RULE_STRING
    return agent, env, users


class _Message:
    def __init__(self, content: str) -> None:
        self.content = content

    def model_dump(self) -> dict[str, str]:
        return {"role": "assistant", "content": self.content}


def _completion(content: str) -> Any:
    choice = types.SimpleNamespace(message=_Message(content))
    usage = {"completion_tokens": 0, "prompt_tokens": 0, "total_tokens": 0}
    return types.SimpleNamespace(choices=[choice], usage=usage, _hidden_params={"response_cost": 0.0})


def _say(lines: Iterator[str], take: Callable[[list[dict[str, str]]], None]) -> Callable[..., Any]:
    def completion(*, messages: Sequence[Mapping[str, str]], **_: Any) -> Any:
        take([{"role": m["role"], "content": m["content"]} for m in messages])
        return _completion(next(lines))

    return completion


def run_upstream(
    modules: tuple[Any, Any, Any], domain: OpenDomain, task: CrmTask, script: Script, options: Any
) -> Seen:
    """Run one conversation through upstream's code."""
    agents, envs, users = modules
    seen = Seen()
    agents.completion = _say(iter(script.agent), lambda messages: seen.agent.append(messages[-1]["content"]))
    users.completion = _say(iter([script.user[0], *script.user]), lambda messages: seen.user.append(messages))
    envs.litellm = types.SimpleNamespace(completion=_say(iter(script.evaluator), seen.evaluator.append))
    LocalSalesforce.org = domain.org
    row = task_row(task)
    row["answer"] = row["answer"] or ["a refusal"]  # upstream reads the first one, of privacy tasks too
    schema = schema_rows(domain.org.schema)
    with contextlib.redirect_stdout(io.StringIO()):
        make = envs.InteractiveChatEnv if task.interactive else envs.ChatEnv
        env = make(tasks={0: row}, task_index=0, org_type="b2b")
        # Upstream's user is reset once when it is made, before it knows a task.
        seen.user.clear()
        agent = agents.ChatAgent(
            schema_obj=schema,
            model=_ROLELESS_MODEL,
            provider="openai",
            eval_mode="aided" if options.aided else "default",
            interactive=task.interactive,
            agent_type="external" if task.kind.external else "internal",
            privacy_aware_prompt=options.privacy_aware,
            strategy=options.strategy,
        )
        reward = agent.act(env, index=0)
    seen.reward = float(reward["f1"] if isinstance(reward, dict) else reward)
    seen.replies = len(seen.agent)
    seen.user_turns = env.current_user_turn
    return seen


# --- our side ---------------------------------------------------------------------------------------------------------


@dataclass
class _Reply:
    parts: Sequence[Part]
    usage: None = None


class ScriptedSession:
    """The agent's end of our conversation."""

    context_id = "c"

    def __init__(self, lines: Sequence[str], seen: Seen, *, natively: bool = False) -> None:
        self._lines = iter(lines)
        self._seen = seen
        self._natively = natively

    def send(self, parts: Sequence[Part], timeout: float | None = None) -> _Reply:
        """Take down what the agent is sent, and answer by the script."""
        words, tools = heard_natively(parts) if self._natively else ("".join(part.text for part in parts), [])
        self._seen.agent.append(words)
        self._seen.tools += tools
        return _Reply([Part.of_text(next(self._lines))])


def run_ours(domain: OpenDomain, task: CrmTask, script: Script, settings: Settings) -> Seen:
    """Run one conversation through ours."""
    seen = Seen()
    lines = {"user": iter(script.user), "judge": iter(script.evaluator)}

    def completion(*, model: str, messages: Sequence[Mapping[str, str]], **_: Any) -> Any:
        said = [{"role": m["role"], "content": m["content"]} for m in messages]
        (seen.user if model == "user" else seen.evaluator).append(said)
        return _completion(next(lines[model]))

    import_litellm("the certification").completion = completion
    key = TrialKey("crmarena", domain.name, task.task_id)
    session: Any = ScriptedSession(script.agent, seen, natively=settings.dialect == NATIVE)
    outcome = BENCHMARK.run_trial(TrialContext(key, settings, session, seed=0))
    if outcome.error is not None:
        raise outcome.error
    seen.reward = outcome.reward.value if outcome.reward else None
    seen.replies = len(seen.agent)
    spoken = sum(call.name == "respond" for turn in outcome.transcript for call in turn.calls)
    seen.user_turns = spoken if task.interactive else 0
    return seen


# --- both -------------------------------------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout")
    parser.add_argument("--strategy", choices=STRATEGIES, default="react", help="which of upstream's agents")
    parser.add_argument("--rounds", type=int, default=5, help="conversations of each task, domain and prompt")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tasks", type=int, default=2, help="tasks of each category")
    parser.add_argument("--domain", default="mini", help="mini, or b2b and its like with --data")
    parser.add_argument("--data", default=None)
    chosen = parser.parse_args()
    import_litellm("the certification")  # before upstream does, whose import of it looks for prices on the network
    modules = import_upstream(chosen.checkout)
    compared, differing, ends = Counter[str](), Counter[str](), Counter[str]()
    asked = [chosen.domain] + [f"{chosen.domain}_interactive"] * (chosen.strategy == "react")
    prompts = [(False, False), (True, False)] + [(False, True)] * (chosen.strategy == "react")
    # How the agent calls tools: in upstream's words, or by an interface of its provider's.
    forms = {"tool_call": ("auto", NATIVE), "tool_call_flex": (NATIVE,)}.get(chosen.strategy, ("auto",))
    for name, (aided, aware), form in itertools.product(asked, prompts, forms):
        options = types.SimpleNamespace(aided=aided, privacy_aware=aware, strategy=chosen.strategy, form=form)
        settings = _settings(chosen, options)
        domain = open_domain(name, settings)
        seen: Counter[str] = Counter()
        for task_id, task in domain.tasks.items():
            seen[task.category] += 1
            if seen[task.category] > chosen.tasks:
                continue
            for number in range(chosen.rounds):
                rng = random.Random(f"{chosen.seed}/{name}/{task_id}/{aided}/{aware}/{number}")
                theirs, ours = _run_both(modules, domain, task, rng, options, settings)
                ends[f"reward {'above' if theirs.reward else 'of'} 0, {'asked' if task.interactive else 'plain'}"] += 1
                _compare(f"{name}/{task_id}#{number}", theirs, ours, compared, differing)
    for what, count in compared.items():
        print(f"{what}: {count - differing[what]} of {count} equal")
    print("conversations by upstream's reward:", ", ".join(f"{count} {what}" for what, count in sorted(ends.items())))
    return 1 if differing.total() else 0


def _settings(chosen: argparse.Namespace, options: Any) -> Settings:
    own = {
        "crm_official": f"{chosen.checkout}:{options.strategy}{'+privacy' * options.privacy_aware}",
        "crm_aided": options.aided,
        "crm_data": chosen.data,
        "crm_scoring": None,
    }
    return Settings(user="llm:user", judge_llm="judge", dialect=options.form, benchmark_options=own)


def _run_both(
    modules: tuple[Any, Any, Any],
    domain: OpenDomain,
    task: CrmTask,
    rng: random.Random,
    options: Any,
    settings: Settings,
) -> tuple[Seen, Seen]:
    if not options.strategy.startswith("tool"):
        script = write_script(task, domain, rng)
        return run_upstream(modules, domain, task, script, options), run_ours(domain, task, script, settings)
    LocalSalesforce.org = domain.org
    as_text = options.form != NATIVE
    replies = write_calls(task, domain, rng, as_text=as_text)
    heard, tools, reward, count = run_tools_upstream(
        task, domain, replies, strategy=options.strategy, aided=options.aided, as_text=as_text
    )
    theirs = Seen(agent=heard, reward=reward, replies=count, tools=tools)
    lines = [says(reply, as_text=as_text) for reply in replies]
    return theirs, run_ours(domain, task, Script(lines, (), ()), settings)


def _compare(where: str, theirs: Seen, ours: Seen, compared: Counter[str], differing: Counter[str]) -> None:
    pairs: dict[str, tuple[list[Any], list[Any]]] = {
        "conversations": ([theirs], [ours]),
        "messages to the agent": (theirs.agent, ours.agent),
        "requests to the user's model": (theirs.user, ours.user),
        "requests to the evaluator's model": (theirs.evaluator, ours.evaluator),
        "rewards": ([theirs.reward], [ours.reward]),
        "the agent's replies, counted": ([theirs.replies], [ours.replies]),
        "tools offered": (theirs.tools, ours.tools),
        "the user's turns, counted": ([theirs.user_turns], [ours.user_turns]),
    }
    for what, (one, other) in pairs.items():
        length = max(len(one), len(other))
        compared[what] += length
        wrong = [i for i in range(length) if one[i : i + 1] != other[i : i + 1]]
        differing[what] += len(wrong)
        if wrong and differing[what] <= 3 * len(wrong):
            at = slice(wrong[0], wrong[0] + 1)
            print(f"{where}: {what}, number {wrong[0]}\n  upstream: {one[at]!r:.600}\n  ours:     {other[at]!r:.600}")


if __name__ == "__main__":
    sys.exit(main())
