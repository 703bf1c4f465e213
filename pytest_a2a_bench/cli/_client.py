"""Serve an agent that judges its client, and print the report."""

from __future__ import annotations

import contextlib
import sys
from argparse import Namespace
from pathlib import Path

from pytest_a2a_bench.a2a.network import read_bind_address
from pytest_a2a_bench.cli._protocol import check_output, write_report
from pytest_a2a_bench.cli._served import terminable
from pytest_a2a_bench.conformance.clients.agent import CARDS, SITUATIONS
from pytest_a2a_bench.conformance.clients.observed import ObservedAgent
from pytest_a2a_bench.conformance.clients.rules import requirement_ids
from pytest_a2a_bench.conformance.waivers import read_waivers
from pytest_a2a_bench.errors import ConfigurationError, Terminated
from pytest_a2a_bench.redact import KNOWN
from pytest_a2a_bench.reports.conformance import render


def run(namespace: Namespace) -> int:
    """Serve the agent that judges its client until Ctrl-C, SIGTERM or enough requests, and print the report."""
    if namespace.count < 0:
        raise ConfigurationError(f"--count is {namespace.count}; give a whole number, 0 for no end")
    if namespace.output:
        check_output(Path(namespace.output))
    waivers = read_waivers(namespace.waivers, requirement_ids()) if namespace.waivers else ()
    place = read_bind_address(namespace.client, None, "the agent", any_port=True)
    try:
        with ObservedAgent(place) as agent:
            with contextlib.suppress(KeyboardInterrupt, Terminated), terminable():
                sys.stderr.write(_introduction(agent))
                sys.stderr.flush()
                agent.wait(namespace.count)
            report = agent.report(waivers, strict=bool(namespace.strict))
    except OSError as error:
        raise ConfigurationError(f"cannot listen on {namespace.client}: {error}") from error
    if not agent.requests:
        what = "a client read the card and made no request" if report.judgements else "no client came"
        print(f"a2a-bench: {what}", file=sys.stderr)
        return 2
    text = render(report, namespace.format)
    if namespace.output:
        write_report(Path(namespace.output), text)
    else:
        sys.stdout.write(KNOWN.hide(text))
    return 0 if report.is_clean else 1


def _introduction(agent: ObservedAgent) -> str:
    said = [f"an agent that judges its client is at {agent.url}; Ctrl-C ends it and prints the report"]
    said += ["say one of these words in a task, or let each new conversation get the next situation:"]
    said += [f"  {word:<15} {what}" for word, what in SITUATIONS.items()]
    said += [f"other cards, below {agent.url}:", *(f"  /{name:<14} {what}" for name, what in CARDS.items())]
    said += ["  /GRPC/0.3       a binding or a version alone"]
    return "\n".join(said) + "\n"
