"""Everything that knows pytest-xdist; imported only where that plugin is active."""

from __future__ import annotations

import contextlib
import copy
import os
import pickle
import tempfile
import threading
import time
from collections.abc import Callable, Container, Generator, Sequence
from typing import Any, cast

import pytest
from xdist.scheduler import LoadScheduling
from xdist.workermanage import WorkerController

from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.plugin import schedule, state
from pytest_a2a_bench.plugin.explanation import PREFIX, say, shown_path
from pytest_a2a_bench.plugin.state import WORKER_INPUT, BenchRun
from pytest_a2a_bench.plugin.terminal import Reporting, looks_like_trial, remarks
from pytest_a2a_bench.results import manifest
from pytest_a2a_bench.results.manifest import Manifest
from pytest_a2a_bench.results.store import Store, StoreError

# For files that are being written when the controller has died, or was terminated.
_GRACE = 2.0
# After SIGTERM, for workers that judge or still start: what they clear away takes a second at most.
_STOPPING = 1.2
_LOST = "a2a_lost"
_POLL = 0.2


def join(config: pytest.Config, run: BenchRun) -> None:
    """Register the hooks of this process's side."""
    if run.worker is None:
        config.pluginmanager.register(Controller(run), "a2a-bench-xdist")
    else:
        config.pluginmanager.register(Worker(run), "a2a-bench-xdist")


class Worker:
    """The worker's side: stops when its controller does, and reports its findings to it."""

    def __init__(self, run: BenchRun) -> None:
        self.run = run

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Begin to watch the controller."""

        def stop() -> None:
            session.shouldstop = "the controller stopped"
            if self.run.services.schedule is not None:
                self.run.services.schedule.stop()
            if self.run.services.judge is not None:
                self.run.services.judge.stop()

        def leave() -> None:
            stop()
            self._wait_for_files()
            # _exit: nobody is there to report to, and threads of conversations would keep a normal exit waiting.
            os._exit(1)

        watch_controller(self.run.worker.lifeline if self.run.worker is not None else None, stop, leave)
        keeps = self.run.worker is not None and self.run.worker.keeps
        self.run.services.certain = inbox(session.config, keeps=keeps)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        """Start the conversations of items that came since the last one."""
        schedule = self.run.services.schedule
        if schedule is not None:
            for index in self.run.services.certain():
                schedule.look_ahead(item.session.items[index])

    def _wait_for_files(self) -> None:
        deadline = time.monotonic() + _GRACE
        while (
            self.run.services.schedule is not None
            and self.run.services.schedule.in_flight
            and time.monotonic() < deadline
        ):
            time.sleep(0.05)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Report to the controller whether anything used the agent, what was left out and what was compared."""
        output: dict[str, Any] = session.config.workeroutput  # type: ignore[attr-defined]
        output.setdefault(WORKER_INPUT, {}).update(
            used=self.run.collected.used,
            left_out=self.run.collected.left_out,
            notes=remarks(session.config, self.run, session.items),
        )
        if (pair := self.run.services.pair) is not None:
            output[WORKER_INPUT]["exchanges"] = sum(pair.counted)


def watch_controller(lifeline: str | None, on_stop: Callable[[], None], on_death: Callable[[], None]) -> None:
    """Watch the controller from a worker, in a thread: xdist's messages reach a busy worker only after its item.

    :param lifeline: a file that is there as long as the run goes on; None where the controller is on another machine.
    :param on_stop: called once when the controller stops.
    :param on_death: called once when the process that started this one is gone: its children get another parent.
    """
    parent = os.getppid()

    def watch() -> None:
        is_stopped = lifeline is None
        while os.getppid() == parent:
            if not is_stopped and not os.path.exists(lifeline or ""):
                is_stopped = True
                on_stop()
            time.sleep(_POLL)
        with contextlib.suppress(OSError):
            os.unlink(lifeline or "")
        on_death()

    threading.Thread(target=watch, name="a2a-lifeline", daemon=True).start()


class Controller:
    """The controller's side: hands the run to its workers and hears from them."""

    def __init__(self, run: BenchRun) -> None:
        self.run = run
        self._lifeline: Any = None
        self.workers = 0
        self._collected = 0
        self._trials = 0
        self._ready: set[str] = set()
        self._crashed = False
        self._reported: set[str] = set()
        self._ended: set[str] = set()

    def pytest_configure_node(self, node: Any) -> None:
        """Give a worker the run, its part of the items and the lifeline."""
        node.workerinput[WORKER_INPUT] = pickle.dumps(self.run.plan)
        # Whole files, groups or all items: only one distribution takes back what it gave.
        node.workerinput[state.KEEPS] = node.config.getoption("dist") != "worksteal"
        self.workers = node.workerinput["workercount"]
        # Only workers on this machine can see a file of this one.
        if self.run.settings.endpoint and getattr(node.gateway.spec, "popen", False):
            if self._lifeline is None:
                self._lifeline = tempfile.NamedTemporaryFile(prefix="a2a-run-")  # removed when it is closed
            node.workerinput[state.LIFELINE] = self._lifeline.name

    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> LoadScheduling | None:
        """Send each worker its items beforehand where conversations run ahead, or the protocol is judged."""
        ahead = self.run.settings.concurrency > self.workers or self.run.plan.selection.conformance
        # Only for the default distribution: who chooses another wants its order.
        return AheadScheduling(config, log, self._ended) if ahead and config.getoption("dist") == "load" else None

    def pytest_xdist_node_collection_finished(self, node: Any, ids: Sequence[str]) -> None:
        """Note how many trials there will be."""
        trials = tuple(filter(looks_like_trial, ids))
        self._trials = len(trials)
        self._ready.add(node.gateway.id)
        reporting = node.config.pluginmanager.get_plugin("a2a-bench-reporting")
        if isinstance(reporting, Reporting):
            reporting.expected = trials
            # A replacement must not count as one more.
            reporting.workers = max(reporting.workers, node.workerinput["workercount"])
            self._collected += 1
            if self._collected == reporting.workers:
                reporting.keep_time()
                self._tell_outlook(node.config, reporting.workers)

    def _tell_outlook(self, config: pytest.Config, workers: int) -> None:
        """Describe the power of the run, once every worker knows its items."""
        settings, terminal = self.run.settings, config.pluginmanager.get_plugin("terminalreporter")
        gated = settings.min_pass or self.run.services.baseline is not None
        found = self._manifest() if gated else None
        if found is None or terminal is None or config.getoption("verbose") < 0:
            return
        from pytest_a2a_bench.plugin.publishing import outlook_lines  # few runs have gates

        for line in outlook_lines(self.run, [TrialKey.parse(key) for key in found.keys], workers):
            terminal.ensure_newline()
            say(terminal, line)

    @pytest.hookimpl(tryfirst=True)
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        """Take in a worker's findings; a crashed one has none."""
        self._crashed = self._crashed or bool(error)
        sent = (getattr(node, "workeroutput", None) or {}).get(WORKER_INPUT, {})
        self.run.collected.used = self.run.collected.used or bool(sent.get("used"))
        self.run.collected.left_out = max(self.run.collected.left_out, int(sent.get("left_out", 0)))
        notes = self.run.collected.notes
        notes += [note for note in sent.get("notes", ()) if note not in notes]  # every worker collects the same
        self.run.collected.exchanges += int(sent.get("exchanges", 0))
        if "problems" in sent:
            state.raise_usage_error(*sent["problems"])

    @pytest.hookimpl(trylast=True)
    def pytest_handlecrashitem(self, crashitem: str, report: pytest.TestReport, sched: Any) -> None:
        """Report a trial whose worker crashed as an error: its outcome is not known.

        Where it is to run again (``--reruns``), there is nothing to say yet, and no result that would be given back.
        """
        if looks_like_trial(crashitem) and str(report.outcome) != "rerun":
            # In the setup phase: infrastructure trouble is an ERROR everywhere else, too.
            report.when = "setup"
            report.user_properties = self._lost(crashitem, sched.config)
            setattr(report, _LOST, sched.config.hook)
            if self.run.settings.concurrency > self.workers:
                report.longrepr = (
                    f"{report.longrepr}\n(or while another conversation of that worker ran ahead: "
                    f"--a2a-concurrency={self.run.settings.concurrency}; its replacement holds them one at a time)"
                )

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note which items were heard of, and end those that a worker did not: junit takes properties from there."""
        self._reported.add(report.nodeid)
        if report.when == "teardown":
            self._ended.add(report.nodeid)
        hook = report.__dict__.pop(_LOST, None)
        if hook is not None:
            end = copy.copy(report)
            end.when, end.outcome, end.longrepr = "teardown", "passed", None
            hook.pytest_runtest_logreport(report=end)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Name each trial that was left with a crashed worker and that no other took over, before gates judge."""
        result = yield
        if self._crashed and not (session.shouldstop or session.shouldfail):
            self._name_lost(session.config)
        return result

    def _name_lost(self, config: pytest.Config) -> None:
        selected = self._manifest()
        for nodeid in selected.nodeids if selected is not None else ():
            if nodeid in self._reported:
                continue
            place = (nodeid.partition("::")[0], None, nodeid.partition("::")[2])
            report = pytest.TestReport(
                nodeid=nodeid,
                location=place,
                keywords={},
                outcome="failed",
                longrepr="its worker crashed, and no other was left to run it (--max-worker-restart)",
                when="setup",
                user_properties=self._lost(nodeid, config),
            )
            config.hook.pytest_runtest_logstart(nodeid=nodeid, location=place)
            setattr(report, _LOST, config.hook)
            config.hook.pytest_runtest_logreport(report=report)
            config.hook.pytest_runtest_logfinish(nodeid=nodeid, location=place)

    def _manifest(self) -> Manifest | None:
        """Return the plan of this run as its workers wrote it; None if none of them got so far."""
        try:
            found = manifest.load(self.run.plan.results)
        except StoreError:
            return None
        return found if found.run_id == self.run.plan.run_id else None

    def _lost(self, nodeid: str, config: pytest.Config) -> list[tuple[str, object]]:
        """Return the result of a trial whose worker crashed: without it the trial would leave every denominator."""
        found = self._manifest()
        if found is None or nodeid not in found.nodeids:
            return []
        key = TrialKey.parse(found.nodeids[nodeid])
        result = TrialResult(
            key=key,
            status="infrastructure_error",
            run_id=self.run.plan.run_id,
            error="its worker crashed",
            error_type="WorkerCrashed",
            category=found.categories.get(key.task_key, ""),
        )
        # The report says it even where no file can be written.
        with contextlib.suppress(StoreError):
            store = Store(self.run.plan.results)
            stored = store.read(result.key)
            # The trial may have ended before its worker crashed.
            is_stored = stored is not None and stored.run_id == self.run.plan.run_id
            result = stored if stored is not None and is_stored else store.write(result)
        path = shown_path(result.path, config)
        return [(PREFIX + name, value) for name, value in schedule.properties(result, path).items()]

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Let workers that still run stop at once."""
        if self._lifeline is not None:
            self._lifeline.close()
        nodes = getattr(session.config.pluginmanager.get_plugin("dsession"), "nodemanager", None)
        # xdist waits ten seconds. Trials run once all workers have collected, and their files are worth some time.
        if self.run.services.is_terminated and nodes is not None:
            is_running = self._trials and len(self._ready) >= self.workers
            nodes.EXIT_TIMEOUT = _GRACE if is_running else _STOPPING


class AheadScheduling(LoadScheduling):  # type: ignore[misc]
    """xdist's default scheduler, but each worker gets all of its items at once, to start conversations ahead of them.

    The items of a crashed worker go to its replacement.

    :param ended: node ids of items whose last report has come.
    """

    def __init__(self, config: pytest.Config, log: Any, ended: Container[str]) -> None:
        super().__init__(config, log)
        self._ended = ended

    def remove_node(self, node: WorkerController) -> str | None:
        """Take back a worker's items, and return the one that it was running when it crashed.

        xdist hears that an item is complete after its last report. A worker that was lost in between, by a conversation
        that ran ahead, was running none: to name the item that had ended would report it twice.
        """
        waiting = self.node2pending[node]
        if waiting and self.collection is not None and self.collection[waiting[0]] in self._ended:
            self.pending.extend(waiting[1:])
            waiting.clear()
        return cast("str | None", super().remove_node(node))

    def schedule(self) -> None:
        """Give workers their items: every worker at first, a replacement later."""
        if self.collection is not None:
            super().schedule()
        elif self._check_nodes_have_same_collection():
            self.collection: list[str] | None = next(iter(self.node2collection.values()))
            total, nodes = len(self.collection or ()), self.nodes
            for number, node in enumerate(nodes):
                # Every n-th item, so that workers share each domain evenly.
                self.pending[:] = range(number, total, len(nodes))
                self.check_schedule(node)

    def check_schedule(self, node: WorkerController, duration: float = 0) -> None:
        """Send a worker all remaining items, and the end of the list."""
        if not node.shutting_down:
            self._send_tests(node, len(self.pending))
            node.shutdown()


# -- items that an xdist worker has received and not ended; xdist has no public name for them --


def inbox(config: pytest.Config, *, keeps: bool) -> Callable[[], Sequence[int]]:
    """Return a function that lists the indices of this worker's coming items; None if this xdist keeps them elsewhere.

    :param keeps: whether what waits stays here. Else only the current item and the next one do.
    """

    def certain() -> Sequence[int]:
        for plugin in config.pluginmanager.get_plugins():
            queue: Any = getattr(plugin, "torun", None)
            if hasattr(queue, "lock"):
                with queue.lock() as waiting:
                    begun = [getattr(plugin, name, None) for name in ("item_index", "nextitem_index")]
                    found = [*begun, *(waiting if keeps else ())]
                return [i for i in found if isinstance(i, int)]
        return ()

    return certain
