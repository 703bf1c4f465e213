"""Everything that knows pytest-xdist; imported only where that plugin is active."""

from __future__ import annotations

import contextlib
import copy
import os
import pickle
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any

import pytest

from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.plugin import outcome, state
from pytest_a2a_bench.plugin.explanation import PREFIX, shown_path
from pytest_a2a_bench.plugin.state import WORKER_INPUT, BenchRun, WorkerPart
from pytest_a2a_bench.plugin.terminal import Reporting, looks_like_trial
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
    """The worker's side: stops when its controller does, and tells it what it found."""

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
        """Report to the controller whether anything used the agent, and what was left out."""
        output: dict[str, Any] = session.config.workeroutput  # type: ignore[attr-defined]
        output.setdefault(WORKER_INPUT, {}).update(used=self.run.collected.used, left_out=self.run.collected.left_out)


def watch_controller(lifeline: str | None, on_stop: Callable[[], None], on_death: Callable[[], None]) -> None:
    """Watch the controller from a worker, in a thread: xdist tells a busy worker nothing until its item is over.

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
        self.scheduler: PartitionScheduling | None = None
        self._lifeline: Any = None
        self.free_slots: list[int] | None = None
        self.workers = 0
        self._collected = 0
        self._trials = 0
        self._ready: set[str] = set()
        self._crashed = False
        self._reported: set[str] = set()

    def pytest_configure_node(self, node: Any) -> None:
        """Give a worker the run, its part of the items and the lifeline."""
        node.workerinput[WORKER_INPUT] = pickle.dumps(self.run.plan)
        # Whole files, groups or all items: only one distribution takes back what it gave.
        node.workerinput[state.KEEPS] = node.config.getoption("dist") != "worksteal"
        self.workers = node.workerinput["workercount"]
        if self._partitioned(node.config):
            self._assign(node)
        # Only workers on this machine can see a file of this one.
        if self.run.settings.endpoint and getattr(node.gateway.spec, "popen", False):
            if self._lifeline is None:
                self._lifeline = tempfile.NamedTemporaryFile(prefix="a2a-run-")  # removed when it is closed
            node.workerinput[state.LIFELINE] = self._lifeline.name

    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> PartitionScheduling | None:
        """Fix each worker's items beforehand where conversations run ahead."""
        if not self._partitioned(config):
            return None
        self.scheduler = PartitionScheduling(config, self.workers, self.release)
        return self.scheduler

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

    @pytest.hookimpl(tryfirst=True)
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        """Hear what a worker found; a crashed one has nothing to say."""
        self._crashed = self._crashed or bool(error)
        sent = (getattr(node, "workeroutput", None) or {}).get(WORKER_INPUT, {})
        self.run.collected.used = self.run.collected.used or bool(sent.get("used"))
        self.run.collected.left_out = max(self.run.collected.left_out, int(sent.get("left_out", 0)))
        if "problems" in sent:
            state.raise_usage_error(*sent["problems"])

    @pytest.hookimpl(trylast=True)
    def pytest_handlecrashitem(self, crashitem: str, report: pytest.TestReport, sched: Any) -> None:
        """Report a trial whose worker crashed as an error: nobody knows what its agent would have done.

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
        """Return what this run is asked to do, as its workers wrote it; None where none of them came so far."""
        try:
            found = manifest.load(self.run.plan.results)
        except StoreError:
            return None
        return found if found.run_id == self.run.plan.run_id else None

    def _lost(self, nodeid: str, config: pytest.Config) -> list[tuple[str, object]]:
        """Return what is known of a trial whose worker crashed: without it the trial would leave every denominator."""
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
        return [(PREFIX + name, value) for name, value in outcome.properties(result, path).items()]

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

    def release(self, slot: int) -> None:
        """Take back the slot of a worker that died before it had items."""
        if self.free_slots is not None:
            self.free_slots.append(slot)

    def _partitioned(self, config: pytest.Config) -> bool:
        ahead = self.run.settings.concurrency > self.workers or self.run.plan.selection.conformance
        # Only for the default distribution: who chooses another wants its order.
        return ahead and config.getoption("dist") == "load"

    def _assign(self, node: Any) -> None:
        slots = self.workers
        if self.free_slots is None:
            self.free_slots = list(range(slots))
        # A worker that died before it had items gives its slot back.
        if self.free_slots:
            node.workerinput[state.SLOT] = self.free_slots.pop(0)
            node.workerinput[state.SLOTS] = slots
        else:
            node.workerinput[state.ORPHANS] = self.scheduler.take_orphans() if self.scheduler else []


# xdist needs two items at a worker: the running one and the next, for its fixtures.
_WINDOW = 2


class PartitionScheduling:
    """A scheduler that gives each worker a part of the items which the worker knows beforehand.

    That is what lets a worker start conversations ahead of its items. Items are still sent a few at a time, so that
    ``-x`` stops a worker soon. What a crashed worker leaves goes to its replacement.

    :param workers: how many workers the run began with.
    :param release: called with the slot of a worker that died before it had items.
    """

    def __init__(self, config: pytest.Config, workers: int, release: Any) -> None:
        self.config = config
        self.expected = workers
        self.collection: list[str] | None = None
        self._release = release
        self._collections: dict[Any, list[str]] = {}
        self._sent: dict[Any, list[int]] = {}
        self._lots: dict[Any, list[int]] = {}
        self._orphans: list[list[int]] = []
        self._promised: list[list[int]] = []

    @property
    def nodes(self) -> list[Any]:
        """The workers that are up."""
        return list(self._sent)

    @property
    def collection_is_completed(self) -> bool:
        """Whether every worker has collected."""
        return len(self._collections) >= self.expected

    @property
    def tests_finished(self) -> bool:
        """Whether nothing is left to send; a worker needs its shutdown to run its last item."""
        if self.collection is None or self._is_waiting():
            return False
        # Of two items that a worker has, it runs the first only when it knows the second, or its shutdown.
        return all(len(sent) < 2 for sent in self._sent.values())

    @property
    def has_pending(self) -> bool:
        """Whether items are left."""
        return self._is_waiting() or any(self._sent.values())

    def add_node(self, node: Any) -> None:
        """Note a worker that came up."""
        self._sent[node] = []

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        """Note what a worker collected."""
        self._collections[node] = list(collection)

    def schedule(self) -> None:
        """Give workers their parts: all of them at first, a replacement later."""
        if self.collection is None:
            collections = list(self._collections.values())
            # Workers must have collected the same, as indices are all that is sent.
            if any(c != collections[0] for c in collections):
                self._report_difference()
                self.collection = []
                return
            self.collection = collections[0]
        for node in self.nodes:
            if node in self._collections and node not in self._lots:
                self._lots[node] = WorkerPart.of(node.workerinput).indices(len(self.collection))
                self._keep_promise(node)
                self._feed(node)

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Send the next item after one is done."""
        self._sent[node].remove(item_index)
        self._feed(node)

    def mark_test_pending(self, item: str) -> None:
        """Let the replacement of the worker that just crashed run its item again (pytest-rerunfailures asks for it)."""
        assert self.collection is not None
        rest = self._orphans.pop() if self._orphans else []
        self._orphans.append([self.collection.index(item), *rest])

    def remove_pending_tests_from_node(self, node: Any, indices: Sequence[int]) -> None:
        """Not offered: this scheduler never takes items back from a living worker."""
        raise NotImplementedError

    def remove_node(self, node: Any) -> str | None:
        """Forget a worker; the item that it was running is returned if it crashed."""
        sent = self._sent.pop(node)
        lot = self._lots.pop(node, None)
        if self.collection is None:
            if state.SLOT in node.workerinput:
                self._collections.pop(node, None)
                self._release(node.workerinput[state.SLOT])
            return None
        # A replacement that dies before it begins leaves its promise to the next one.
        if lot is None and (promised := self._keep_promise(node)):
            self._orphans.append(promised)
        if not sent:
            return None
        # The first of what was sent is what it was running.
        rest = sent[1:] + (lot or [])
        if rest:
            self._orphans.append(rest)
        return self.collection[sent[0]]

    def take_orphans(self) -> list[int]:
        """Return what one crashed worker left, for the worker that replaces it."""
        orphans = self._orphans.pop(0) if self._orphans else []
        self._promised.append(orphans)
        return orphans

    def _is_waiting(self) -> bool:
        return bool(self._orphans or any(self._promised)) or any(self._lots.values())

    def _keep_promise(self, node: Any) -> list[int]:
        """Forget the orphans that a replacement was promised when it was set up, and return them."""
        orphans = node.workerinput.get(state.ORPHANS)
        if orphans is None or orphans not in self._promised:
            return []
        self._promised.remove(orphans)
        return list(orphans)

    def _feed(self, node: Any) -> None:
        if node.shutting_down:
            return
        lot, sent = self._lots[node], self._sent[node]
        more = lot[: max(0, _WINDOW - len(sent))]
        if more:
            del lot[: len(more)]
            sent.extend(more)
            node.send_runtest_some(more)
        # Nothing will follow: without this the worker would wait for a next item.
        if not lot:
            node.shutdown()

    def _report_difference(self) -> None:
        from xdist.report import report_collection_diff

        (first, expected), *others = self._collections.items()
        for node, found in others:
            if text := report_collection_diff(expected, found, first.gateway.id, node.gateway.id):
                report = pytest.CollectReport(nodeid=node.gateway.id, outcome="failed", longrepr=text, result=[])
                self.config.hook.pytest_collectreport(report=report)


# -- items that an xdist worker has received and not begun; xdist has no public name for them --


def inbox(config: pytest.Config, *, keeps: bool) -> Callable[[], Sequence[int]]:
    """Return what tells the indices of items that this worker will run; none where xdist has them elsewhere.

    :param keeps: whether what waits stays here. Else only the item that comes next does.
    """

    def certain() -> Sequence[int]:
        for plugin in config.pluginmanager.get_plugins():
            queue: Any = getattr(plugin, "torun", None)
            if hasattr(queue, "lock"):
                with queue.lock() as waiting:
                    found = [getattr(plugin, "nextitem_index", None), *(waiting if keeps else ())]
                return [i for i in found if isinstance(i, int)]
        return ()

    return certain
