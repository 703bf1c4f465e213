"""The part of ``crm_official.py`` for upstream's agent with tools: its scripts, and how it is run."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import random
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mini_org.org import schema_rows, task_row

from pytest_a2a_bench import dialects
from pytest_a2a_bench.benchmarks.crmarena.domains import OpenDomain
from pytest_a2a_bench.benchmarks.crmarena.tasks import NONE, CrmTask
from pytest_a2a_bench.model import Part, UserSaid
from pytest_a2a_bench.model.messages import Briefing

# Upstream decides by the name how a model calls tools: in words, or by its provider's interface.
_MODELS = {True: ("llama3.1-8b-instruct", "together_ai"), False: ("gpt-4o-2024-08-06", "openai")}

NATIVE = "tool_call"
"""The dialect in which ours offers tools where upstream's model has them from its provider."""


class Call:
    """One reply of a scripted agent that is a call of a tool."""

    def __init__(self, name: str, arguments: Any) -> None:
        self.name, self.arguments = name, arguments


def write_calls(task: CrmTask, domain: OpenDomain, rng: random.Random, *, as_text: bool) -> list[str | Call]:
    """Write what an agent says in one conversation: sensible calls, wrong ones, and what is no call."""
    made = [*_sensible(domain, rng), *_wrong(domain, rng)]
    golds = [*task.answers * 6, ", ".join(task.answers) or NONE, NONE, "none", '"None"', "It is 42.", "", "?!"]
    answers: list[Any] = [*golds, 5, None, ["x"], {"content": "x"}]
    responses = [Call("respond", {"content": rng.choice(answers)}) for _ in range(6)]
    responses += [Call("respond", {"answer": "x"}), Call("respond", {}), Call("respond", {"content": "x", "more": 1})]
    clumsy: list[str] = ["The answer is None.", "", " ", "I will look it up first."]
    if as_text:
        name, arguments = made[0].name, json.dumps(made[0].arguments)
        clumsy += [
            f"Action: {name}",
            f"Action: {name}\nAction Input: {{broken",
            f"Action: {name} Action Input: {arguments} Action Input: {{}}",
            f"Action: {name}\nAction Input:\n```json\n{arguments}\n```\nthat is it",
            f"Action: {name}\nAction Input: ```{arguments}```",
            f"Thought: hm\nAction: {name}\nAction Input: {made[0].arguments!r}",
            "Action: get_issues\nAction Input: null",
            "Action: get_issues\nAction Input: []",
            "Action: get_issues\nAction Input: 3",
            'Action: get_issues\nAction Input: "x"',
            "Action: get_issues\nAction Input: {(1, 2): 3}",
            "Action: respond\nAction Input: [1]",
            "Action: respond\nAction Input: None",
            "Action: \nAction Input: {}",
            'Action Input: {"content": "None"}',
        ]
    kinds: list[Sequence[str | Call]] = [made, clumsy, responses]
    patient = rng.random() < 0.3
    weights = [6, 3, 0 if patient else 2]
    return [rng.choice(rng.choices(kinds, weights)[0]) for _ in range(30)]


def _sensible(domain: OpenDomain, rng: random.Random) -> list[Call]:
    def ask(query: str) -> list[dict[str, Any]]:
        return [{k: v for k, v in r.items() if k != "attributes"} for r in domain.org.run(query).records]

    def ids(sobject: str) -> list[str]:
        return [str(r["Id"]) for r in rng.sample(found[sobject], 3)]

    found = {n: ask(f"SELECT Id FROM {n} LIMIT 40") for n in ("User", "Case", "OrderItem", "Product2", "Contact")}
    case = "SELECT OwnerId, CreatedDate, ClosedDate, AccountId FROM Case WHERE ClosedDate != NULL"
    cases = rng.sample(ask(case), 4)
    some = ask("SELECT Id, AccountId, EffectiveDate FROM Order WHERE Status = 'Activated' LIMIT 40")
    year = rng.choice([2019, 2020, 2021, 2022, 2023])
    start, end = f"{year}-01-01T00:00:00Z", f"{year + rng.choice([0, 1])}-06-30T00:00:00Z"
    order = rng.choice(some)
    counts = {agent: rng.randrange(9) for agent in ids("User")}
    shipped = [{**c, "ShippingState": rng.choice(["CA", "NY", None])} for c in cases]
    words = rng.choice(["battery", "return policy", "shoes", "the", "a*", "x{y", "", "power AND"])
    return [
        Call("get_agents_with_max_cases", {"subset_cases": cases}),
        Call("get_agents_with_min_cases", {"subset_cases": cases}),
        Call("calculate_average_handle_time", {"cases": cases}),
        Call("get_start_date", {"end_date": end, "period": rng.choice(_PERIODS), "interval_count": rng.randrange(6)}),
        Call("get_period", {"period_name": rng.choice(["May", "Q3", "Winter", "Monday"]), "year": year}),
        Call("get_agent_handled_cases_by_period", {"start_date": start, "end_date": end}),
        Call("get_agent_transferred_cases_by_period", {"start_date": start, "end_date": end}),
        Call(
            "get_agent_transferred_cases_by_period",
            {"start_date": start, "end_date": end, "qualified_agent_ids": ids("User")},
        ),
        Call("get_qualified_agent_ids_by_case_count", {"agent_handled_cases": counts, "n_cases": 3}),
        Call("get_cases", {"start_date": start, "end_date": end}),
        Call("get_cases", {"agent_ids": ids("User"), "statuses": ["Closed"]}),
        Call("get_cases", {"case_ids": ids("Case")[:1], "order_item_ids": ids("OrderItem"), "issue_ids": ["x"]}),
        Call("get_non_transferred_case_ids", {"start_date": start, "end_date": end}),
        Call("get_shipping_state", {"cases": cases}),
        Call("calculate_region_average_closure_times", {"cases": shipped}),
        Call("get_order_item_ids_by_product", {"product_id": ids("Product2")[0]}),
        Call("get_issue_counts", {"start_date": start, "end_date": end, "order_item_ids": ids("OrderItem")}),
        Call("find_id_with_max_value", {"values_by_id": counts}),
        Call("find_id_with_min_value", {"values_by_id": counts}),
        Call("get_account_id_by_contact_id", {"contact_id": ids("Contact")[0]}),
        Call(
            "get_purchase_history",
            {
                "account_id": order["AccountId"],
                "purchase_date": f"{order['EffectiveDate']}T00:00:00Z",
                "related_product_ids": [str(r["Id"]) for r in found["Product2"]],
            },
        ),
        Call("get_month_to_case_count", {"cases": cases}),
        Call("search_knowledge_articles", {"search_term": words}),
        Call("search_products", {"search_term": words}),
        Call("get_issues", {}),
        Call("get_livechat_transcript_by_case_id", {"case_id": ids("Case")[0]}),
        Call("get_email_messages_by_case_id", {"case_id": ids("Case")[0]}),
        Call("issue_soql_query", {"query": "SELECT OwnerId, COUNT(Id) n FROM Case GROUP BY OwnerId"}),
        Call("issue_soql_query", {"query": "```sql\nSELECT Id\nFROM Nowhere\n```"}),
        Call("issue_sosl_query", {"query": "FIND {power} RETURNING Knowledge__kav(Id, Title), Product2(Id, Name)"}),
        Call("issue_sosl_query", {"query": "find {x} RETURNING Case(Id)"}),
    ]


_PERIODS = ("day", "week", "month", "quarter", "year")


def _wrong(domain: OpenDomain, rng: random.Random) -> list[Call]:
    values: list[Any] = [None, 7, -1, "x", "", [], ["x"], [{}], {}, {"a": "b"}, True, 2.5, 10**30, "2021-01-01"]
    wrong = [Call("get_weather", {"city": "X"}), Call("submit", {"content": "None"}), Call("GET_ISSUES", {})]
    for call in rng.sample(_sensible(domain, rng), 8):
        names = list(call.arguments) or ["anything"]
        spoilt = {**call.arguments, rng.choice(names): rng.choice(values)}
        without = {k: v for k, v in call.arguments.items() if k != names[0]}
        extra = {**call.arguments, "sf_connector": 1}
        wrong += [Call(call.name, a) for a in (spoilt, without, extra, {**call.arguments, "more": 1})]
    return wrong


def says(reply: str | Call, *, as_text: bool) -> str:
    """Write a reply as an agent of ours says it."""
    if isinstance(reply, str):
        return reply
    if as_text:
        return f"Action: {reply.name}\nAction Input: {json.dumps(reply.arguments)}"
    return json.dumps({"tool_call": {"name": reply.name, "arguments": reply.arguments}})


def import_tools() -> tuple[Any, Any, Any]:
    """Import upstream's agent with tools, its environment and its tools; the others were imported before."""
    with contextlib.redirect_stdout(io.StringIO()):
        agent = importlib.import_module("crm_sandbox.agents.tool_call_agent")
        env = importlib.import_module("crm_sandbox.env.env")
        tools = importlib.import_module("crm_sandbox.env")
    agent.time = types.SimpleNamespace(sleep=lambda seconds: None)
    return agent, env, tools


class _Answer:
    def __init__(self, reply: str | Call, *, as_text: bool) -> None:
        self._reply, self._as_text = reply, as_text

    def model_dump(self) -> dict[str, Any]:
        if isinstance(self._reply, str) or self._as_text:
            return {"role": "assistant", "content": says(self._reply, as_text=True), "tool_calls": None}
        function = {"name": self._reply.name, "arguments": json.dumps(self._reply.arguments)}
        return {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "function": function}]}


def run_tools_upstream(
    task: CrmTask, domain: OpenDomain, script: Sequence[str | Call], *, strategy: str, aided: bool, as_text: bool
) -> tuple[list[str], Any, float, int]:
    """Run one conversation through upstream's code: messages, tools offered, reward, replies."""
    agents, envs, tools = import_tools()
    heard: list[str] = []
    offered: list[Any] = []
    lines: Iterator[str | Call] = iter(script)

    def completion(*, messages: Sequence[Mapping[str, Any]], tools: Any = None, **_: Any) -> Any:
        contents = [str(m["content"]) for m in messages]
        heard.append(contents[-1] if heard else "\n\n".join(contents))
        offered[:] = [tools]
        choice = types.SimpleNamespace(message=_Answer(next(lines), as_text=as_text))
        usage = {"completion_tokens": 0, "prompt_tokens": 0, "total_tokens": 0}
        return types.SimpleNamespace(choices=[choice], usage=usage, _hidden_params={"response_cost": 0.0})

    agents.completion = completion
    row = task_row(task)
    row["answer"] = row["answer"][0] if len(row["answer"]) == 1 else row["answer"]
    schema = schema_rows(domain.org.schema)
    # It prints each failure of its parser.
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        chosen = tools.TOOLS_FULL if strategy == "tool_call_flex" else tools.TOOLS
        env = envs.ToolEnv(tools=chosen, tasks={0: row}, task_index=0)
        model, provider = _MODELS[as_text]
        agent = agents.ToolCallAgent(
            tools=env.tools_info,
            schema_obj=schema,
            model=model,
            provider=provider,
            eval_mode="aided" if aided else "default",
            strategy=strategy,
        )
        reward = agent.act(env, index=0)
    told = [
        (t["function"]["name"], t["function"]["description"], t["function"]["parameters"]) for t in offered[0] or ()
    ]
    return heard, told, float(reward["f1"] if isinstance(reward, dict) else reward), len(heard)


def heard_natively(parts: Sequence[Part]) -> tuple[str, list[Any]]:
    """Return what one of our messages says in the form of a provider's interface: words, and the tools offered."""
    request = dialects.get(NATIVE).decode_request(parts)
    words = "\n\n".join(e.text if isinstance(e, UserSaid) else getattr(e, "content", "") for e in request.events)
    briefing: Briefing | None = request.briefing
    if briefing is None:
        return words, []
    return f"{briefing.policy}\n\n{words}", [(t.name, t.description, dict(t.parameters)) for t in briefing.tools]
