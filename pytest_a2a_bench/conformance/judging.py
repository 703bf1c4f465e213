"""Checks of one agent from synchronous code: started together, waited for one by one, cleared away at the end."""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
from collections.abc import Iterable, Mapping

from pytest_a2a_bench.a2a import loop
from pytest_a2a_bench.conformance.engine import CONCURRENCY, Planned, run_checks
from pytest_a2a_bench.conformance.finding import CheckResult
from pytest_a2a_bench.conformance.session.target import Target
from pytest_a2a_bench.errors import HarnessError

_CLEANUP_SECONDS = 8.0


class Judge:
    """Runs checks on the shared loop. After :meth:`close` its ``left`` says what may still be on the agent.

    :param targets: the agent's interfaces.
    :param concurrency: how many checks run at once.
    """

    def __init__(self, targets: Iterable[Target], concurrency: int = CONCURRENCY) -> None:
        self._targets = tuple(targets)
        self._concurrency = concurrency
        self.left: list[str] = []
        self._results: dict[str, concurrent.futures.Future[CheckResult]] = {}
        self._runs: list[tuple[list[str], concurrent.futures.Future[None], threading.Event]] = []

    def start(self, planned: Iterable[Planned]) -> None:
        """Begin checks, together; those that have begun already go on."""
        fresh = list({p.name: p for p in planned if p.name not in self._results}.values())
        if not fresh:
            return
        for p in fresh:
            self._results[p.name] = concurrent.futures.Future()
        over = threading.Event()
        self._runs.append(([p.name for p in fresh], loop.submit(self._run(fresh, over)), over))

    def result(self, planned: Planned) -> CheckResult:
        """Wait for one check's result; it is begun if it has not been.

        :raises HarnessError: if the run broke.
        """
        self.start([planned])
        future = self._results[planned.name]
        try:
            problem = future.exception()
        except concurrent.futures.CancelledError as error:
            raise HarnessError(f"{planned.name} was stopped before it ended") from error
        if problem is not None:
            # One exception raised for every check would gather all their tracebacks.
            raise HarnessError(str(problem))
        return future.result()

    def close(self) -> None:
        """Stop what still runs, and wait until what was made on the agent is cleared away."""
        for names, future, _ in self._runs:
            # A run whose results are all there is clearing away already, and must not be kept from it.
            if not all(self._results[name].done() for name in names):
                future.cancel()
        for _, _, over in self._runs:
            over.wait(_CLEANUP_SECONDS)

    async def _run(self, planned: list[Planned], over: threading.Event) -> None:
        try:
            running = run_checks(self._targets, planned=planned, concurrency=self._concurrency, left=self.left)
            async with contextlib.aclosing(running) as results:
                async for result in results:
                    self._results[result.name].set_result(result)
        except Exception as error:
            self._give_up(planned, HarnessError(f"the run of the checks broke: {type(error).__name__}: {error}"))
        finally:
            self._give_up(planned, None)
            over.set()

    def _give_up(self, planned: list[Planned], error: HarnessError | None) -> None:
        for p in planned:
            future = self._results[p.name]
            if not future.done():
                future.set_exception(error) if error is not None else future.cancel()


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
    finally:
        judge.close()
        if left is not None:
            left += judge.left
