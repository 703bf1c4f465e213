"""The ADK agent: ``a2a-bench adk new DIR`` writes it for ``adk run``, ``adk web`` and ``adk api_server`` to load, and
``a2a-bench adk serve`` serves it over A2A.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping
from functools import reduce
from importlib.util import find_spec
from pathlib import Path

from pytest_a2a_bench.adk.options import GEMINI, VARIABLES, AdkOptions
from pytest_a2a_bench.assessor.request import url_problem
from pytest_a2a_bench.cli.assess import check_address, check_port
from pytest_a2a_bench.errors import ConfigurationError, MissingExtraError, raise_errors
from pytest_a2a_bench.text import waiting_for
from pytest_a2a_bench.tracing import without_sdk_spans


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    kinds = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    new = kinds.add_parser("new", help="write a directory with the agent, and say how to start it")
    new.add_argument("directory", metavar="DIR", type=Path, help="Directory to make it in")
    new.add_argument(
        "--url", default="http://127.0.0.1:8000", help="Where adk api_server --a2a will answer (http://127.0.0.1:8000)"
    )
    serve = kinds.add_parser("serve", help="serve the agent over A2A")
    serve.add_argument("--host", default="127.0.0.1", help="Address to listen on (127.0.0.1)")
    serve.add_argument("--port", type=int, default=8001, help="Port to listen on; 0 for any free one (8001)")
    serve.add_argument("--card-url", metavar="URL", help="URL by which callers reach it, where that is another one")
    serve.add_argument(
        "--auth-file", metavar="FILE", type=Path, help="Tokens, NAME=TOKEN on each line; read anew if changed"
    )
    serve.add_argument(
        "--auth-env", metavar="NAME", help="Environment variable with tokens, NAME=TOKEN, commas between"
    )
    for kind in (new, serve):
        group = kind.add_argument_group("settings", "Each is also read from the environment, under the name given.")
        for one in VARIABLES:
            help = f"{one.help} (environment: {one.name})"
            group.add_argument(one.option, dest=one.name, metavar=one.metavar, help=help)


def run(namespace: Namespace) -> int:
    """Write the agent, or serve it."""
    if find_spec("google") is None or find_spec("google.adk") is None:
        raise MissingExtraError("google-adk", "adk", detail="it runs the agent")
    given = {one.name: value for one in VARIABLES if (value := getattr(namespace, one.name)) is not None}
    try:
        return _new(namespace, given) if namespace.what == "new" else _serve(namespace, given)
    except ConfigurationError as error:
        # Settings are called by their variables; who gave an option looks for that.
        typed = [(one.name, one.option) for one in VARIABLES if one.name in given]
        raise ConfigurationError(*(replace_all(str(line), typed) for line in error.args)) from error


def replace_all(text: str, pairs: Iterable[tuple[str, str]]) -> str:
    """Replace each first string by its second one."""
    return reduce(lambda found, pair: found.replace(*pair), pairs, text)


def _new(namespace: Namespace, given: Mapping[str, str]) -> int:
    from pytest_a2a_bench.adk import folder

    if problem := url_problem(namespace.url):
        raise ConfigurationError(f"--url: {problem}")
    options = AdkOptions.from_environment(given)  # wrong values are reported now, not by ADK later
    directory = namespace.directory
    # Else it would depend on the directory in which adk is started.
    results = Path(given.get("A2A_ADK_RESULTS") or directory / "results").absolute()
    folder.write(directory, {**given, "A2A_ADK_RESULTS": str(results)}, namespace.url)
    print(f"wrote {directory / folder.NAME}")
    print(f"  talk to it:      adk run {directory / folder.NAME}")
    print(f"  in a browser:    adk web {directory}")
    print(f"  over HTTP, A2A:  adk api_server --a2a {directory}")
    key = "GOOGLE_API_KEY" if GEMINI.match(options.model) else "its key, as LiteLLM calls it,"
    print(f"its model is {options.model} (A2A_ADK_MODEL); {key} belongs into its .env or the environment")
    return 0


def _serve(namespace: Namespace, given: Mapping[str, str]) -> int:
    raise_errors(lambda: check_port(namespace.port), lambda: check_address(namespace))
    without_sdk_spans()
    options = AdkOptions.from_environment({**os.environ, **given})
    # google-adk says so of each class that a server takes.
    warnings.filterwarnings("ignore", message=r"\[EXPERIMENTAL\]")
    with contextlib.ExitStack() as starting:
        starting.enter_context(waiting_for("google-adk, which takes seconds to load"))
        return _listen(namespace, options, starting)


def _listen(namespace: Namespace, options: AdkOptions, starting: contextlib.ExitStack) -> int:
    from pytest_a2a_bench.adk.agent import make_evaluator  # these import an extra
    from pytest_a2a_bench.adk.runs import Runs
    from pytest_a2a_bench.adk.serving import serve
    from pytest_a2a_bench.assessor.terms import Callers

    def on_ready(url: str) -> None:
        starting.close()
        print(f"the agent answers at {url} (Ctrl-C stops it)", flush=True)

    callers = Callers.of(namespace.auth_file, namespace.auth_env)
    runs = Runs(options)
    serve(
        lambda: make_evaluator(runs=runs),
        runs,
        namespace.host,
        namespace.port,
        card_url=namespace.card_url,
        callers=callers,
        on_ready=on_ready,
    )
    print("stopped", file=sys.stderr)
    return 0
