"""The hooks that this plugin calls: its whole extension contract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_a2a_bench.benchmarks.suite import Suite
    from pytest_a2a_bench.model import TrialKey


@pytest.hookspec
def pytest_a2a_bench_suites() -> Sequence[Suite]:
    """Offer suites of your own.

    Called in every process (controller and workers) when the plugin or conftest that has it is registered, and again
    while pytest is configured, so implement it in a plugin or in the rootdir's conftest. What it returns must be the
    same everywhere and every time. Options that a suite brings (``Suite.options``) are declared when it is registered::

        def pytest_a2a_bench_suites():
            return [Suite(name="mine", domains=("desk",), available=..., splits=..., load_tasks=...)]

    :return: suites; each becomes a marker, and its domains names for ``--a2a-suite``.
    """
    raise NotImplementedError


@pytest.hookspec
def pytest_a2a_bench_prepare_trial(key: TrialKey, metadata: dict[str, Any]) -> None:
    """Prepare one trial before its conversation starts.

    Called in the conversation's own thread, in the process that runs it (a worker under xdist), possibly long before
    the item's fixtures are set up, and once more before each time that the conversation is held again
    (``--a2a-redeliver``). An exception ends the trial: an error of this package as infrastructure trouble, any
    other as a harness error.

    :param metadata: goes with every message of the trial; change it in place, e.g. ``metadata["tenant"] = str(key)``.
    """
    raise NotImplementedError
