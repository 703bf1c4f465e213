"""What happens when in a pytest process, from configuration to its end."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

import pytest

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.plugin.collect import collection, markers
from pytest_a2a_bench.plugin.run import state
from pytest_a2a_bench.plugin.run.state import RUN, WORKER_INPUT, BenchRun
from pytest_a2a_bench.plugin.trials import fixtures

_HANDLER = pytest.StashKey[Any]()


class Terminated(KeyboardInterrupt):
    """SIGTERM: pytest stops as for Ctrl-C, and so writes its reports."""


def configure(config: pytest.Config) -> None:
    """Resolve the options, register markers and fixtures, and choose the built-in modules."""
    for suites in config.hook.pytest_a2a_bench_suites():
        registry.register(suites)
    for line in markers.lines(_marker_signatures(), registry.marker_domains(), registry.marker_categories()):
        config.addinivalue_line("markers", line)
    worker_input = getattr(config, "workerinput", None)
    if worker_input is not None and WORKER_INPUT in worker_input:
        run = BenchRun.from_worker_input(worker_input)
        collection.take_arguments(config, run.settings)
    else:
        run = state.start(config)
        if run.resolution.asked or run.settings.endpoint:
            _take_part(config, run)
        else:
            run.selection = collection.take_arguments(config, run.settings)
    config.stash[RUN] = run
    config.pluginmanager.register(fixtures, "a2a-bench-fixtures")
    _join_xdist(config, run)


def _take_part(config: pytest.Config, run: BenchRun) -> None:
    """Choose what joins, and register what listens: on the controller, where somebody may use us.

    Without an endpoint, options or ini no trial can run, and nothing of this is even imported.
    """
    from pytest_a2a_bench.plugin import gates
    from pytest_a2a_bench.plugin.conformance import summary, verdicts
    from pytest_a2a_bench.plugin.report import publishing, terminal
    from pytest_a2a_bench.plugin.run import root_directory
    from pytest_a2a_bench.plugin.trials import misses

    if wrong := root_directory.problems(config):
        raise pytest.UsageError("; ".join(wrong))
    run.named = misses.is_named(config, run)
    run.selection = collection.take_arguments(config, run.settings, run.missed)
    if (run.resolution.asked or run.selection.conformance) and not run.resolution.problems:
        verdicts.check_files(run)
    reporting = terminal.Reporting(config, run)
    config.pluginmanager.register(gates.Gatekeeper(config, run, reporting), "a2a-bench-gates")
    config.pluginmanager.register(reporting, "a2a-bench-reporting")
    config.pluginmanager.register(summary.Summary(config, run), "a2a-bench-conformance")
    if run.settings.html:
        from pytest_a2a_bench.plugin.report import page

        config.pluginmanager.register(page.Page(config, run), "a2a-bench-html")
    publishing.register(config, run, reporting)


def _marker_signatures() -> dict[str, str]:
    shapes = registry.marker_shapes()
    return {
        name: markers.signature(categories=shape.categories, interactive=shape.interactive)
        for name, shape in shapes.items()
    }


def unconfigure(config: pytest.Config) -> None:
    """Stop the built-in agent and give SIGTERM back."""
    run = config.stash.get(RUN, None)
    if run is not None and run.agent_process is not None:
        from pytest_a2a_bench.plugin import preflight

        preflight.stop_agent(run)
    if _HANDLER in config.stash:
        signal.signal(signal.SIGTERM, config.stash[_HANDLER])
        del config.stash[_HANDLER]


def start(session: pytest.Session) -> None:
    """Find the agent, where it is time for that."""
    run = state.of(session.config)
    if run.worker is None and run.settings.endpoint:
        from pytest_a2a_bench.plugin import preflight

        distributed = _is_distributed(session.config)
        # What workers collect, and so whether they use the agent, is known here only when they are done.
        if run.resolution.asked or distributed:
            _catch_sigterm(session.config)
        preflight.at_start(session.config, run, distributed=distributed)


def conclude_collection(session: pytest.Session) -> None:
    """Check the items, and find the agent if one of them needs it and nobody looked before."""
    run = state.of(session.config)
    collection.conclude(session, run)
    if not run.used or not run.settings.endpoint:
        return
    from pytest_a2a_bench.plugin import preflight
    from pytest_a2a_bench.plugin.collect import shards

    if run.worker is None:
        _catch_sigterm(session.config)
        preflight.after_collection(session.config, run)
    shards.write_manifest(session, run)


def finish(session: pytest.Session) -> None:
    """Abort what still runs; finished trials are in their files already."""
    run = state.of(session.config)
    if run.schedule is not None:
        run.schedule.close()
    if run.judge is not None:
        run.judge.close()
    if run.tracing is not None:
        from pytest_a2a_bench.plugin.trials import telemetry

        telemetry.finish(run)


def _join_xdist(config: pytest.Config, run: BenchRun) -> None:
    # "-p xdist.plugin" registers it under its module's name.
    if any(config.pluginmanager.hasplugin(name) for name in ("xdist", "xdist.plugin")):
        from pytest_a2a_bench.plugin.xdist import sides

        sides.join(config, run)


def _is_distributed(config: pytest.Config) -> bool:
    return config.pluginmanager.hasplugin("dsession")


def _catch_sigterm(config: pytest.Config) -> None:
    if _HANDLER in config.stash or threading.current_thread() is not threading.main_thread():
        return
    config.stash[_HANDLER] = signal.signal(signal.SIGTERM, _on_sigterm)


def _on_sigterm(signum: int, frame: FrameType | None) -> None:
    raise Terminated("SIGTERM")
