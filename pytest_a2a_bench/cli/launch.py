"""``a2a-bench launch``: start an assessor and an agent, have one assess the other, print the result, stop both.

Either may run already, or be kept by a controller. Exits with 0 if the assessment was held and every trial of it could
be evaluated, with 1 if not.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_a2a_bench.a2a.config import Credentials
from pytest_a2a_bench.a2a.network import read_variable
from pytest_a2a_bench.cli.controller import port
from pytest_a2a_bench.configuration.readers import read_json_object
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.platforms.launch import Launch, Place, launch, own_assessor
from pytest_a2a_bench.platforms.scenario import Scenario, read_scenario
from pytest_a2a_bench.results.store import save
from pytest_a2a_bench.secret import Secret, dump_json
from pytest_a2a_bench.settings import TAGGED_AGENTS

if TYPE_CHECKING:
    from pytest_a2a_bench.platforms.follow import Followed

ORGS = ("mini", "original", "b2b", "b2c")


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument_group("who").add_argument
    add(
        "--white",
        metavar="WHAT",
        help="The agent: builtin:NAME, a URL, or a command ({port}, $AGENT_PORT)",
    )
    add("--green", metavar="WHAT", help="The assessor, likewise (a2a-bench assess)")
    add("--white-controller", metavar="URL", help="Reset and use the agent of a controller")
    add("--green-controller", metavar="URL", help="Reset and use the assessor of a controller")
    add("--white-port", type=port, default=9019, metavar="N", help="Where the agent is started (9019); 0 for any free")
    add("--green-port", type=port, default=9009, metavar="N", help="Where the assessor is started (9009)")
    add("--scenario", type=Path, metavar="FILE", help="A scenario.toml, in place of all these")
    add("assess", nargs="*", metavar="ARGUMENT", help="Further arguments of a2a-bench assess, after --")
    add = parser.add_argument_group("what is asked").add_argument
    add("--domain", metavar="NAME", help="tau2's or CRMArena's domain, or conformance (airline)")
    add("--org-type", choices=ORGS, help="CRMArena's org, in place of --domain")
    add("--task-category", metavar="NAMES", help="CRMArena: all, or categories with commas between")
    add("--interactive", action="store_true", help="CRMArena: a user who talks")
    add("--max-tasks", type=int, metavar="N", help="How many tasks, from the first")
    add("--config", type=_json, default={}, metavar="JSON", help="Further members of the request's config")
    add = parser.add_argument_group("how").add_argument
    add("--auth-env", metavar="NAME", help="Variable with the token that the assessor wants")
    add("--controller-auth-env", metavar="NAME", help="Variable with the token that controllers want")
    add("--start-timeout", type=float, default=120.0, metavar="SECONDS", help="For each of them to answer (120)")
    add("--timeout", type=float, metavar="SECONDS", help="For the assessment (any time)")
    add("--show-logs", action="store_true", help="Show what the started processes write")
    add("-o", "--output", type=Path, metavar="FILE", help="Write the result as a leaderboard's file, too")
    add("--id", metavar="ID", help="What the leaderboard calls the agent")


def _json(text: str) -> dict[str, Any]:
    return dict(read_json_object(text))


def run(namespace: Namespace) -> int:
    """Launch, follow, print."""
    wanted, identities = _read(namespace)
    try:
        found = asyncio.run(launch(wanted))
    except KeyboardInterrupt:
        _say("interrupted; everything that was started is stopped")
        raise
    _show(found)
    if namespace.output is not None and found.state == "completed":
        from pytest_a2a_bench.platforms.leaderboard import make_file

        save(namespace.output, dump_json(make_file(identities, found.data)))
        print(f"written to {namespace.output}")
    return 0 if found.is_good else 1


def _show(found: Followed) -> None:
    for text in found.texts:
        print(text)
    if not found.texts:
        for data in found.data:
            print(json.dumps(data, indent=1, ensure_ascii=False))
    if found.state != "completed":
        print(f"the assessment ended as {found.state}", file=sys.stderr)
    elif found.errors:
        print(f"{found.errors} could not be evaluated", file=sys.stderr)
    elif not found.is_good:
        print("the assessor completed its task without a result", file=sys.stderr)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _read(namespace: Namespace) -> tuple[Launch, dict[str, str]]:
    """Return what is to be launched, and what a leaderboard calls each participant.

    :raises ConfigurationError: naming everything that is wrong.
    """
    scenario = read_scenario(namespace.scenario) if namespace.scenario else None
    problems = list(_problems(namespace, scenario))
    if problems:
        raise ConfigurationError("launch: " + "; ".join(problems))
    if scenario is not None and scenario.green is not None:
        green = Place.of_party(scenario.green)
        participants = tuple(map(Place.of_party, scenario.participants))
        identities = {p.role: p.identity for p in scenario.participants if p.identity}
    else:
        green, participants, identities = _green(namespace), (_white(namespace),), {}
    if namespace.id:
        identities = {participants[0].role: namespace.id}
    wanted = Launch(
        green=green,
        participants=participants,
        config=_config(namespace, scenario, participants),
        say=_say,
        echo=_say if namespace.show_logs else None,
        token=_credentials(namespace.auth_env),
        controller_token=_token(namespace.controller_auth_env),
        start_seconds=namespace.start_timeout,
        seconds=namespace.timeout,
    )
    return wanted, identities


def _problems(namespace: Namespace, scenario: Scenario | None) -> list[str]:
    found = []
    if scenario is not None:
        given = [n for n in ("white", "green", "white_controller", "green_controller") if getattr(namespace, n)]
        found += [f"--{name.replace('_', '-')} contradicts --scenario" for name in given]
    elif not (namespace.white or namespace.white_controller):
        found.append("no agent: give --white builtin:NAME, a URL or a command, --white-controller URL, or --scenario")
    for side in ("white", "green"):
        if getattr(namespace, side) and getattr(namespace, f"{side}_controller"):
            found.append(f"--{side} contradicts --{side}-controller")
    if namespace.assess and (scenario is not None or namespace.green or namespace.green_controller):
        found.append(f"what stands after -- is for a2a-bench assess, which is not started here: {namespace.assess}")
    if namespace.org_type and namespace.domain:
        found.append("--org-type contradicts --domain")
    if namespace.max_tasks is not None and namespace.max_tasks < 1:
        found.append(f"--max-tasks {namespace.max_tasks}: give 1 or more")
    for name in ("start_timeout", "timeout"):
        seconds = getattr(namespace, name)
        if seconds is not None and not seconds > 0:
            found.append(f"--{name.replace('_', '-')} {seconds:g}: give more than 0")
    if namespace.output is not None and not (namespace.id or _identities(scenario)):
        found.append("--output needs --id, by which the leaderboard knows the agent (or agentbeats_id in a scenario)")
    return found


def _identities(scenario: Scenario | None) -> bool:
    return scenario is not None and any(p.identity for p in scenario.participants)


def _green(namespace: Namespace) -> Place:
    if namespace.green_controller:
        return Place("green_agent", url=namespace.green_controller, is_controller=True)
    if namespace.green:
        return Place.of("green_agent", namespace.green, namespace.green_port, option="--green")
    return own_assessor(namespace.green_port, tuple(namespace.assess))


def _white(namespace: Namespace) -> Place:
    if namespace.white_controller:
        return Place("agent", url=namespace.white_controller, is_controller=True)
    return Place.of("agent", namespace.white, namespace.white_port, option="--white")


def _config(namespace: Namespace, scenario: Scenario | None, participants: tuple[Place, ...]) -> dict[str, Any]:
    """Return what is asked: the command line's over the scenario's."""
    config: dict[str, Any] = {**(scenario.config if scenario else {}), **namespace.config}
    categories = namespace.task_category
    given = {
        "domain": namespace.domain,
        "org_type": namespace.org_type,
        "task_category": categories and ("all" if categories == "all" else categories.split(",")),
        "interactive": namespace.interactive or None,
        "max_tasks": namespace.max_tasks,
    }
    config.update({name: value for name, value in given.items() if value is not None})
    is_crm = any(config.get(name) for name in ("org_type", "task_category", "interactive"))
    if not is_crm and not any(config.get(name) for name in ("domain", "env", "evaluation")):
        config["domain"] = "airline"
    if any(p.builtin in TAGGED_AGENTS for p in participants):
        # They know the solution of a task that they are told the name of.
        config.setdefault("tag_trials", True)
    return config


def _credentials(name: str | None) -> Credentials | None:
    return Credentials(read_variable("--auth-env", name, os.environ), name) if name else None


def _token(name: str | None) -> Secret | None:
    return Secret(read_variable("--controller-auth-env", name, os.environ)) if name else None
