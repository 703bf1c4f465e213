"""The agent's six tools as coroutines that return JSON; they need no ADK.

None blocks its event loop. Errors are raised with advice; the agent returns them to its model as ``{"error": ...}``.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping
from typing import Any

from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.adk.options import choose_credential
from pytest_a2a_bench.adk.runs import Look, Runs
from pytest_a2a_bench.assessor.request import url_problem
from pytest_a2a_bench.assessor.terms import BUILTIN, known_domains
from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.benchmarks.registry import Suite
from pytest_a2a_bench.config.settings import BUILTIN_PREFIX, Settings
from pytest_a2a_bench.conformance.catalogue import load_requirements
from pytest_a2a_bench.conformance.report import judge
from pytest_a2a_bench.conformance.subject import look_at
from pytest_a2a_bench.errors import ConfigurationError, InfrastructureError
from pytest_a2a_bench.text import one_line, sanitise

PROTOCOL = "conformance"
_LONGEST = 300
_VERSION = "1.0"


class Tools:
    """The tools over the evaluations of one results directory."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs

    async def register_agent(self, endpoint: str, auth_token: str = "") -> dict[str, Any]:
        """Look at the A2A agent that is to be evaluated, and judge its agent card.

        Args:
            endpoint: URL of the agent, or builtin:NAME for one of ours (oracle, noop, readonly).
            auth_token: NAME of the credential that the operator set up for this agent, never a token. Usually empty.

        Returns:
            endpoint, name and capabilities as the card has them, and validated: whether the card keeps the protocol.
            If it does not, error names the rules that it breaks; it can be evaluated nevertheless.
        """
        return await asyncio.to_thread(self._register, endpoint, auth_token)

    async def list_tasks(self, domain: str, split: str = "base") -> list[dict[str, str]]:
        """List the tasks of a domain.

        Args:
            domain: airline, retail, telecom or mock (tau2-bench), mini or mini_interactive (CRMArena), or conformance,
                whose entries are the requirements of the A2A protocol.
            split: of tau2's tasks: base, train, test, small or full.

        Returns:
            id, description and domain of each task.
        """
        return await asyncio.to_thread(self._list, domain, split)

    async def run_evaluation(
        self,
        domain: str,
        a2a_endpoint: str,
        task_ids: list[str] | None = None,
        auth_token: str = "",
        max_steps: int = 30,
        trials: int = 1,
    ) -> dict[str, str]:
        """Begin an evaluation in the background; it goes on when this conversation ends.

        Args:
            domain: as list_tasks takes it.
            a2a_endpoint: URL of the agent, or builtin:NAME.
            task_ids: ids of list_tasks; empty for every task of the base split. Empty for conformance.
            auth_token: NAME of the credential that the operator set up for this agent, never a token. Usually empty.
            max_steps: most steps of one tau2 conversation.
            trials: attempts at each task; with several the results have pass^k. 1 for conformance.

        Returns:
            run_id, status (waiting or running) and results_path, the file of its results once it is completed. Ask
            get_evaluation_status for its end.
        """
        config = {"max_steps": max_steps, "num_trials": trials}
        look = await asyncio.to_thread(self.runs.start, domain, a2a_endpoint, task_ids, auth_token, **config)
        return {name: look.about[name] for name in ("run_id", "status", "results_path")}

    async def get_evaluation_status(self, run_id: str) -> dict[str, Any]:
        """Describe how far an evaluation is; waits a few seconds for its end.

        Args:
            run_id: as run_evaluation returned it.

        Returns:
            run_id, status (waiting, running, completed, failed or canceled), domain, task_count, results_path, error
            (why it failed) and progress in words.
        """
        return _status(await asyncio.to_thread(self.runs.wait, run_id, self.runs.options.wait))

    async def get_evaluation_results(self, run_id: str) -> dict[str, Any]:
        """Return the numbers of an evaluation that is completed.

        Args:
            run_id: as run_evaluation returned it.

        Returns:
            run_id, status, domain, results_path, a summary, score, max_score, pass_rate with its interval, metrics,
            errors, and the outcome of each task.
        """
        return await asyncio.to_thread(self.runs.results, run_id)

    async def cancel_evaluation(self, run_id: str) -> dict[str, Any]:
        """End an evaluation that is not over. What it finished stays in its results.

        Args:
            run_id: as run_evaluation returned it.

        Returns:
            The same as get_evaluation_status.
        """
        return _status(await asyncio.to_thread(self.runs.cancel, run_id))

    # -- in a thread --

    def _register(self, endpoint: str, name: str) -> dict[str, Any]:
        if endpoint.startswith(BUILTIN_PREFIX):
            return _builtin(endpoint)
        if problem := url_problem(endpoint):
            raise ConfigurationError(problem)
        runs = self.runs
        chosen = choose_credential(name, endpoint, runs.options.credentials, runs.environ)
        settings = Settings(endpoint=endpoint, auth_env=chosen, timeout=min(runs.terms.settings.timeout, 30.0))
        # Tokens of pytest's settings are not sent.
        environ = {key: value for key, value in runs.environ.items() if key == chosen}
        config = ClientConfig.from_settings(settings, environ)
        config = dataclasses.replace(config, network=dataclasses.replace(config.network, guard=runs.terms.guard))
        subject = look_at(config, timeout=10.0)
        if subject.problem:
            details = "; ".join(one.found for one in subject.findings[:3])
            raise InfrastructureError(f"{endpoint}: {subject.problem}{f' ({details})' if details else ''}")
        card = subject.card
        broken = [one.row.id for one in judge(subject.card_results()) if one.status == "failed"]
        found: dict[str, Any] = {
            "endpoint": endpoint,
            "name": one_line(str(card.get("name") or ""), 100),
            "capabilities": {k: v for k, v in (card.get("capabilities") or {}).items() if isinstance(v, bool)},
            "validated": not broken,
        }
        if broken:
            found["error"] = (
                f"the card breaks {', '.join(broken)}; a2a-bench check --card {endpoint} explains them, and "
                "run_evaluation works nevertheless if the agent can be spoken to"
            )
        return found

    def _list(self, domain: str, split: str) -> list[dict[str, str]]:
        if domain == PROTOCOL:
            return [_task(one.id, one.text, PROTOCOL) for one in load_requirements(_VERSION)]
        suite = self._suite(domain)
        splits = suite.splits(domain)
        # The default split is also that of a benchmark without splits.
        if split not in splits and split != "base":
            raise ConfigurationError(f"{domain} has no split {split!r}; it has {', '.join(splits)}")
        tasks = suite.load_tasks(domain, split if split in splits else splits[0])
        described = suite.describe(domain)
        return [_task(task.task_id, described.get(task.task_id, ""), domain) for task in tasks]

    def _suite(self, domain: str) -> Suite:
        domains = known_domains()
        if domain not in domains:
            raise ConfigurationError(f"there is no domain {domain[:80]!r}; there are {', '.join((*domains, PROTOCOL))}")
        options = {option.name: option.default for suite in registry.known() for option in suite.options}
        options |= self.runs.terms.settings.benchmark_options
        suite = registry.load(domains[domain], Settings(benchmark_options=options))
        if domain not in suite.available():
            raise ConfigurationError(f"the domain {domain} {suite.absence(domain)}")
        return suite


def _status(look: Look) -> dict[str, Any]:
    record = look.record
    failed = record.state == "failed"
    return {
        **look.about,
        "task_count": look.task_count,
        "error": record.summary if failed else None,
        "progress": look.progress or (record.summary.split("\n")[0] if look.is_over and not failed else ""),
    }


def _task(task_id: str, description: str, domain: str) -> dict[str, str]:
    return {"id": task_id, "description": one_line(sanitise(description), _LONGEST), "domain": domain}


def _builtin(endpoint: str) -> dict[str, Any]:
    name = endpoint.removeprefix(BUILTIN_PREFIX)
    if name not in BUILTIN:
        raise ConfigurationError(
            f"{endpoint} is not offered; there are {', '.join(BUILTIN_PREFIX + n for n in BUILTIN)}"
        )
    capabilities: Mapping[str, bool] = {"streaming": True}
    return {"endpoint": endpoint, "name": f"built-in {name}", "capabilities": dict(capabilities), "validated": True}
