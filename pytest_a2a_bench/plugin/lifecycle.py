"""The order of a run in one pytest process, from its configuration to its end.

The plugin is loaded in every pytest run of an environment, and a run that does not use it must not pay for it: modules
that only a run that takes part needs are imported inside these functions.
"""

from __future__ import annotations

import dataclasses
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from pytest_a2a_bench import extensions
from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.config.load import lend_variables, misspelt
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import ConfigurationError, Terminated
from pytest_a2a_bench.plugin import explanation, items, options, resolve, selection, shim, state
from pytest_a2a_bench.plugin.state import (
    CHECK,
    CHECK_FIXTURE,
    FILES,
    RUN,
    TRIAL,
    WORKER_INPUT,
    BenchRun,
    Plan,
    WorkerPart,
)
from pytest_a2a_bench.redact import KNOWN, in_environment
from pytest_a2a_bench.text import announce_with

_HANDLER = pytest.StashKey[Any]()


def configure(config: pytest.Config) -> None:
    """Resolve the options, register markers, and choose the built-in modules."""
    try:
        for suites in config.hook.pytest_a2a_bench_suites():
            registry.register(suites)
    except ConfigurationError as error:
        raise pytest.UsageError(str(error)) from error
    _take_offers(config)
    options.add_markers(config, items.lines(registry.known()))
    worker_input = getattr(config, "workerinput", None)
    if worker_input is not None and WORKER_INPUT in worker_input:
        run = BenchRun(pickle.loads(worker_input[WORKER_INPUT]), WorkerPart.of(worker_input))
        selection.take_arguments(config, run.settings)
    else:
        run = _start(config)
    if run.worker is not None:
        explanation.conceal(config, run)
    config.stash[RUN] = run
    if run.takes_part:
        config.pluginmanager.register(explanation.Warnings(), "a2a-bench-warnings")
    # "-p xdist.plugin" registers it under its module's name.
    has_xdist = any(config.pluginmanager.hasplugin(name) for name in ("xdist", "xdist.plugin"))
    if has_xdist and (worker_input is not None or _is_distributed(config)):
        from pytest_a2a_bench.plugin import xdist

        xdist.join(config, run)
        specs = map(str, config.getoption("tx") or ())
        if worker_input is not None or run.settings.ray is not None or any(spec != "popen" for spec in specs):
            from pytest_a2a_bench.plugin import elsewhere

            elsewhere.join(config, run, (worker_input or {}).get(FILES))


def _take_offers(config: pytest.Config) -> None:
    """Ask plugins and conftest files for extensions, beside those of entry points."""
    config.add_cleanup(extensions.withdraw)
    try:
        for kind in extensions.KINDS:
            # Suites have options, and so are offered as they are; reporters are for stored results.
            hook = getattr(config.hook, f"pytest_a2a_bench_{kind}") if kind not in ("suites", "reporters") else None
            for offer in hook.get_hookimpls() if hook is not None else ():
                extensions.offer(kind, offer.function(), f"plugin {offer.plugin_name}")
    except ConfigurationError as error:
        raise pytest.UsageError(str(error)) from error


def _start(config: pytest.Config) -> BenchRun:
    """Plan the run of a controller (or of a process without workers).

    :raises pytest.UsageError: if settings are wrong.
    """
    try:
        resolution = resolve.resolve(config, os.environ)
    except ConfigurationError as error:
        raise pytest.UsageError(*error.args) from error
    settings = resolution.settings
    results, resolution = _results(config, resolution)
    end = time.time() + settings.run_timeout if settings.run_timeout else None
    plan = Plan(settings, state.new_run_id(), results, resolution.asked, resolution.problems, end=end)
    run = BenchRun(plan)
    takes_part = bool(plan.asked or settings.endpoint)
    if takes_part:
        explanation.conceal(config, run)
        resolve.read_files(run, config.invocation_params.dir)
    if not plan.asked:  # whether something uses the agent is not known yet, nor whose variables these are
        for problem in misspelt(os.environ, registry.every_setting()):
            config.issue_config_time_warning(pytest.PytestConfigWarning(problem), stacklevel=2)
    if plan.asked and run.plan.problems:
        state.raise_usage_error(*run.plan.problems)
    if takes_part:
        _take_part(config, run)
    else:
        run.decide(selection=selection.take_arguments(config, settings))
    return run


def _results(config: pytest.Config, resolution: resolve.Resolution) -> tuple[Path, resolve.Resolution]:
    """Return the directory of result files; of a run that wants them at a URL, one that stands for it."""
    settings = resolution.settings
    unused = not settings.endpoint or resolution.problems or state.nothing_will_run(config)
    if "://" not in settings.results or unused:
        return resolve.results_directory(settings, config), resolution
    from pytest_a2a_bench.results import remote  # few runs have a URL, and this needs an extra

    try:
        directory = remote.opened(settings.results, bring=settings.resume or settings.missed)
    except ConfigurationError as error:
        wrong = (*resolution.problems, f"--a2a-results={error}")
        return resolve.results_directory(settings, config), dataclasses.replace(resolution, problems=wrong)
    config.add_cleanup(partial(remote.closed, directory))
    return directory, resolution


def _removed_assertions(config: pytest.Config) -> Iterator[str]:
    """Report that nothing would be asserted: under python -O only modules that pytest rewrites keep assertions."""
    if sys.flags.optimize and config.getoption("assertmode") == "plain":
        yield (
            "--assert=plain: Python removes assertions (-O, PYTHONOPTIMIZE), so that every trial would pass; "
            "leave one of the two out"
        )


def _take_part(config: pytest.Config, run: BenchRun) -> None:
    """Choose the suites, and register the listeners: on the controller, if the run may use us."""
    from pytest_a2a_bench.plugin import collection, gates, terminal

    config.add_cleanup(KNOWN.remember(in_environment(run.services.variables, *run.settings.secret_variables)))
    config.add_cleanup(lend_variables(run.services.variables, os.environ))
    wrong = (*resolve.root_directory_problems(config), *_removed_assertions(config), *shim.expression_problems(config))
    if wrong:
        state.raise_usage_error(*wrong)
    named = selection.is_named(config, run.settings)
    chosen = selection.take_arguments(config, run.settings, run.plan.missed)
    if chosen.candidates or chosen.conformance:
        from pytest_a2a_bench.plugin import check_items

        check_items.check_requirements()
    if chosen.candidates:
        # The protocol is judged on one agent; an expression means the others' trials.
        judged = not run.settings.agents and check_items.may_be_chosen(config, run)
        chosen = dataclasses.replace(chosen, conformance=judged)
    run.decide(named=named, selection=chosen)
    if collection.decides_early(run):
        run.decide(order=collection.seed_of(run))
    if _names_files(run.settings) and (run.plan.asked or chosen.conformance) and not run.plan.problems:
        from pytest_a2a_bench.plugin import verdicts

        verdicts.check_files(run)
    reporting = terminal.Reporting(config, run)
    config.add_cleanup(announce_with(reporting.announce))
    config.pluginmanager.register(gates.Gatekeeper(config, run, reporting), "a2a-bench-gates")
    config.pluginmanager.register(reporting, "a2a-bench-reporting")
    if chosen.conformance or _is_distributed(config):  # else the first item of a check says so
        from pytest_a2a_bench.plugin import check_items

        check_items.register_summary(config, run)
    if run.publishes:
        from pytest_a2a_bench.plugin import publishing

        publishing.register(config, run, reporting)
    gates.register_early(config, run)


def _names_files(settings: Settings) -> bool:
    """Return whether options name anything that is read for judging the protocol."""
    acts = (settings.acts, settings.acts_behaviors)
    return any(
        (*acts, settings.waivers, settings.scenarios, settings.card_jwks, settings.webhook_bind, settings.webhook_url)
    )


def _is_distributed(config: pytest.Config) -> bool:
    """Return whether this is the controller of workers of pytest-xdist."""
    return bool(config.getoption("tx", None)) and config.getoption("dist", "no") != "no"


def make_items(metafunc: pytest.Metafunc) -> None:
    """Make one item per trial, or per check of the protocol."""
    run = state.of(metafunc.config)
    if CHECK_FIXTURE in metafunc.fixturenames:
        from pytest_a2a_bench.plugin import check_items

        if run.worker is None:
            check_items.register_summary(metafunc.config, run)
        check_items.make_items(metafunc, run)
    else:
        items.make_items(metafunc, run)


def adopt_item(item: pytest.Item) -> None:
    """Note an item's node id and the argument of the command line that selected it, and give it its keywords."""
    run = state.of(item.config)
    run.collected.found_ids.update(wanted for wanted in run.plan.selection.ids if shim.is_below(item.nodeid, wanted))
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    if CHECK_FIXTURE in parameters:
        from pytest_a2a_bench.plugin import check_items

        check_items.adopt(item, parameters[CHECK_FIXTURE])
    elif items.KEY_FIXTURE in parameters:
        items.adopt(item, parameters[items.KEY_FIXTURE])
    elif getattr(item, "nofuncargs", False) and items.own_markers(item):
        problem = "a test of a unittest class takes no fixtures, and so no trial: write it as a function"
        run.collected.test_problems.append((item.nodeid, problem))
    if TRIAL in item.stash:
        run.collected.groups |= {item.stash[TRIAL].key.suite, item.stash[TRIAL].task.domain}
    if item.config.getoption("keyword"):
        nodes, marks = item.listchain(), item.iter_markers()
        names = {*(n.name for n in nodes), *(m.name for m in marks), *item.listextrakeywords()}
        run.collected.names |= names
        if TRIAL in item.stash:
            domain = item.stash[TRIAL].task.domain
            run.collected.shared[domain] = run.collected.shared.get(domain, names) & names


def complete_report(item: pytest.Item, call: pytest.CallInfo[object], report: pytest.TestReport) -> None:
    """Put the outcome of a trial or check into its item's report."""
    if TRIAL in item.stash:
        from pytest_a2a_bench.plugin import schedule

        schedule.fail_unsolved(item, report)
        schedule.explain_failure(item, call, report)
        schedule.excuse_miss(item, call, report)
        if report.when == "teardown":
            schedule.forget(item)
    elif CHECK in item.stash:
        from pytest_a2a_bench.plugin import verdicts

        verdicts.show_evidence(item, report)
    elif not shim.has_used(item, items.ENDPOINT_FIXTURE):
        return
    explanation.clean_report(report)


def unconfigure(config: pytest.Config) -> None:
    """Stop the built-in agent, and give the results directory and SIGTERM back."""
    run = config.stash.get(RUN, None)
    while run is not None and run.services.agent_processes:
        run.services.agent_processes.pop().stop()
    if run is not None and run.services.lock is not None:
        run.services.lock.release()
        run.services.lock = None
    if _HANDLER in config.stash:
        signal.signal(signal.SIGTERM, config.stash[_HANDLER])
        del config.stash[_HANDLER]


def start(session: pytest.Session) -> None:
    """Find the agent, where it is time for that."""
    run = state.of(session.config)
    if run.worker is None and run.settings.endpoint:
        from pytest_a2a_bench.plugin import preflight

        distributed = session.config.pluginmanager.hasplugin("dsession")
        # What workers collect, and so whether they use the agent, is known here only when they are done.
        if run.plan.asked or distributed:
            _catch_sigterm(session.config)
        preflight.at_start(session.config, run, distributed=distributed)


def conclude_collection(session: pytest.Session) -> None:
    """Check the items, and find the agent if one of them needs it and it was not looked for yet."""
    run = state.of(session.config)
    if not (
        run.takes_part or run.plan.selection or run.collected.test_problems or any(map(items.uses_agent, session.items))
    ):
        return
    from pytest_a2a_bench.plugin import collection

    selection.note_unknown_words(session.config, run)
    if shim.CONFORMANCE in (marked := session.config.getoption("markexpr") or ""):
        from pytest_a2a_bench.plugin import check_items

        run.collected.notes += check_items.misspelt_members(marked)
    collection.conclude(session, run)
    if not run.collected.used or not run.settings.endpoint:
        return
    from pytest_a2a_bench.plugin import collection, preflight

    if run.worker is None:
        _catch_sigterm(session.config)
        preflight.after_collection(session.config, run)
    collection.write_manifest(session, run)


def finish(session: pytest.Session) -> None:
    """Abort running trials; finished ones are in their files already."""
    services = state.of(session.config).services
    # From now on SIGTERM is only noted: the summary is as short as anything that it could be cut to.
    services.is_ending = True
    if services.schedule is not None:
        services.schedule.close()
    if services.judge is not None:
        services.judge.close()
    if services.tracing is not None:
        services.tracing.close()
        services.tracing = None


def _catch_sigterm(config: pytest.Config) -> None:
    if _HANDLER in config.stash or threading.current_thread() is not threading.main_thread():
        return
    services = state.of(config).services

    def stop(number: int, frame: FrameType | None) -> None:
        services.is_terminated = True
        # Before anything else: clearing away has to know how little time there is.
        if services.judge is not None:
            services.judge.stop()
        if not services.is_ending:
            raise Terminated("interrupted by SIGTERM")

    config.stash[_HANDLER] = signal.signal(signal.SIGTERM, stop)
