"""Judging from synchronous code: checks that are started together and waited for one by one, and raw exchanges."""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
import time
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any

from pytest_a2a_bench.a2a import loop
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.engine import CONCURRENCY, Planned, run_checks
from pytest_a2a_bench.conformance.finding import FOUND, CheckResult, Requirement
from pytest_a2a_bench.conformance.requirements import load_requirements
from pytest_a2a_bench.conformance.session.presence import CARD_RULES
from pytest_a2a_bench.conformance.session.session import CLEANUP_SECONDS, HURRIED_SECONDS, Session
from pytest_a2a_bench.conformance.session.target import Target
from pytest_a2a_bench.conformance.wire.reply import WireReply
from pytest_a2a_bench.errors import ConfigurationError, HarnessError, Terminated

# For closing connections, beyond what the clearing away itself may take.
_CLOSING_SECONDS = 2.0
_CLOSING_HURRIED = 0.3


Fold = Callable[[Iterable[CheckResult]], Iterable[CheckResult]]
# What can be neither a cause nor a consequence need not wait for the others.
_UNFOLDED = ("passed", "skipped")


class Judge:
    """Runs checks on the shared loop. After :meth:`close` its ``left`` says what may still be on the agent.

    :param targets: the agent's interfaces.
    :param concurrency: how many checks run at once.
    :param fold: folds what was found under its causes; then what fails is told when all checks are over.
    :param elsewhere: names of checks that another process makes for the same report.
    """

    def __init__(
        self,
        targets: Iterable[Target],
        concurrency: int = CONCURRENCY,
        *,
        fold: Fold | None = None,
        elsewhere: Container[str] = (),
    ) -> None:
        self._fold, self._elsewhere = fold, elsewhere
        self._targets = tuple(targets)
        self._concurrency = concurrency
        self.left: list[str] = []
        self._is_hurried = False
        self._results: dict[str, concurrent.futures.Future[CheckResult]] = {}
        self._runs: list[tuple[list[str], concurrent.futures.Future[None], threading.Event]] = []

    def start(self, planned: Iterable[Planned]) -> None:
        # Together, because items of pytest ask one after the other, and checks overlap well: in a row they would take
        # minutes.
        """Begin checks, together; those that have begun already go on."""
        # By name, as two items may ask for the same check.
        fresh = list({p.name: p for p in planned if p.name not in self._results}.values())
        if not fresh:
            return
        for p in fresh:
            self._results[p.name] = concurrent.futures.Future()
        # Set when the clearing away is over, which is later than the last result.
        over = threading.Event()
        self._runs.append(([p.name for p in fresh], loop.submit(self._run(fresh, over)), over))

    def result(self, planned: Planned) -> CheckResult:
        """Wait for one check's result; it is begun if it has not been.

        :raises HarnessError: if the run broke.
        """
        self.start([planned])
        future = self._results[planned.name]
        try:
            # exception() and not result(): a cancelled run is told apart before anything is raised.
            problem = future.exception()
        except concurrent.futures.CancelledError as error:
            raise HarnessError(f"{planned.name} was stopped before it ended") from error
        if problem is not None:
            # One exception raised for every check would gather all their tracebacks.
            raise HarnessError(str(problem))
        return future.result()

    def stop(self) -> None:
        """Stop what still runs, and let :meth:`close` be over within about a second; safe to call from any thread."""
        self._is_hurried = True
        self._cancel()

    def close(self) -> None:
        """Stop what still runs, and wait until what was made on the agent is cleared away."""
        self._cancel()
        seconds = self._patience() + (_CLOSING_HURRIED if self._is_hurried else _CLOSING_SECONDS)
        until = time.monotonic() + seconds
        for names, _, over in self._runs:
            over.wait(max(0.0, until - time.monotonic()))
            # A run that was stopped before its first step has told nobody.
            for name in names:
                self._results[name].cancel()

    def _patience(self) -> float:
        return HURRIED_SECONDS if self._is_hurried else CLEANUP_SECONDS

    def _cancel(self) -> None:
        for names, future, _ in self._runs:
            # A run whose results are all there is clearing away already, and must not be kept from it.
            # Cancelling it now would leave tasks on the agent.
            if not all(self._results[name].done() for name in names):
                future.cancel()

    async def _run(self, planned: list[Planned], over: threading.Event) -> None:
        try:
            running = run_checks(
                self._targets,
                planned=planned,
                concurrency=self._concurrency,
                left=self.left,
                patience=self._patience,
                elsewhere=self._elsewhere,
            )
            held: list[CheckResult] = []
            order = {p.name: number for number, p in enumerate(planned)}
            async with contextlib.aclosing(running) as results:
                waiting = len(planned)
                async for result in results:
                    waiting -= 1
                    if self._fold is not None and _may_fold(result):
                        held.append(result)
                    else:
                        self._results[result.name].set_result(result)
                    # With the last one, and not behind it: then comes the clearing away, which nobody may stop.
                    if not waiting and self._fold is not None:
                        # In the order of the plan, so that the same check is the cause in every run.
                        held.sort(key=lambda result: order[result.name])
                        for folded in self._fold([*held, *await self._causes_elsewhere(held)]):
                            if folded.name in order:
                                self._results[folded.name].set_result(folded)
        # Each waiting item would hang without an answer, so the failure of the run is the failure of all that is
        # missing.
        except Exception as error:
            self._give_up(planned, HarnessError(f"the run of the checks broke: {type(error).__name__}: {error}"))
        finally:
            self._give_up(planned, None)
            over.set()

    async def _causes_elsewhere(self, held: Iterable[CheckResult]) -> list[CheckResult]:
        """Make the checks which explain why others were not made, where another process makes them for the report.

        What that one sees of an interface that comes and goes may be that all is well: then nobody would tell. Those
        that find what they should are left out: they lead nothing here, and are told there.
        """
        found = tuple(held)
        wanted = {r.cause for r in found if r.outcome == "explained" and not r.findings} - {r.name for r in found}
        planned = [
            Planned(requirement, target.binding)
            for target in self._targets
            for requirement in load_requirements(target.version)
            if requirement.id == CARD_RULES[target.version]
        ]
        missing = [p for p in planned if p.name in wanted]
        if not missing:
            return []
        running = run_checks(self._targets, planned=missing, left=self.left, patience=self._patience)
        async with contextlib.aclosing(running) as results:
            return [result async for result in results if result.outcome not in FOUND]

    def _give_up(self, planned: list[Planned], error: HarnessError | None) -> None:
        for p in planned:
            future = self._results[p.name]
            if not future.done():
                future.set_exception(error) if error is not None else future.cancel()


def _may_fold(result: CheckResult) -> bool:
    # What explains that others were not made is looked at even where it found nothing.
    return result.outcome not in _UNFOLDED or result.requirement.id in CARD_RULES.values()


def check_all(
    targets: Iterable[Target],
    planned: Iterable[Planned],
    concurrency: int = CONCURRENCY,
    left: list[str] | None = None,
) -> Mapping[str, CheckResult]:
    """Run checks and return their results by name, in the order of the plan.

    :param left: gets what may still be on the agent in the end.
    """
    every = list(planned)
    judge = Judge(targets, concurrency)
    try:
        judge.start(every)
        return {p.name: judge.result(p) for p in every}
    except Terminated:
        judge.stop()
        raise
    finally:
        judge.close()
        if left is not None:
            left += judge.left


# -- raw exchanges, for people's own tests --


# The context wants a requirement to record findings under; people's own checks have none.
_OWN = Requirement("OWN-001", "own", "", "MUST", "a test of your own")


class RawWire:
    """Every interface of one agent; what is made through it is cleared away by :meth:`close`."""

    def __init__(self, targets: Iterable[Target]) -> None:
        self._sessions: dict[tuple[str, str], Session] = {}
        for target in targets:
            Session(target, self._sessions)

    @property
    def interfaces(self) -> tuple[tuple[str, str], ...]:
        """(binding, version) of each interface, in the card's order."""
        return tuple(self._sessions)

    def call(
        self,
        operation: str,
        params: Mapping[str, Any] | None = None,
        *,
        binding: str | None = None,
        version: str | None = None,
        **options: Any,
    ) -> WireReply:
        """Send one request and return the raw answer; never raises for what the agent does.

        :param operation: an operation's 1.0 name, such as ``SendMessage``.
        :param params: in the form of 1.0.
        :param binding: ``JSONRPC``, ``HTTP+JSON`` or ``GRPC``; by default that of the first interface.
        :param options: of :meth:`Context.call`: ``headers``, ``version_header``, ``body``, ``stream``, ``timeout``,
            ``until``.
        :raises ConfigurationError: if the card declares no such interface.
        """
        context = Context(_OWN, self._session(binding, version))
        return loop.run(context.call(operation, params, **options))

    def send(self, text: str, **options: Any) -> WireReply:
        """Send one text message; ``options`` as for :meth:`call`."""
        binding, version = options.pop("binding", None), options.pop("version", None)
        context = Context(_OWN, self._session(binding, version))
        return loop.run(context.call("SendMessage", context.send_params(text), **options))

    def close(self) -> None:
        """Cancel and delete what was made, and close the connections."""
        for session in self._sessions.values():
            # One after the other: the shared loop serves them, and the sessions of one agent clear up the same tasks.
            loop.run(session.close())

    def _session(self, binding: str | None, version: str | None) -> Session:
        for (b, v), session in self._sessions.items():
            if binding in (None, b) and version in (None, v):
                return session
        asked = " ".join(word for word in (version, binding) if word) or "any"
        declared = ", ".join(f"{v} {b}" for b, v in self._sessions) or "none"
        raise ConfigurationError(f"the card declares no interface {asked}; it declares: {declared}")
