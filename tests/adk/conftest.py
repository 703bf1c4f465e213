from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_a2a_bench.adk.options import AdkOptions
from pytest_a2a_bench.adk.runs import Runs, Tools


@pytest.fixture
def options(tmp_path: Path) -> AdkOptions:
    return AdkOptions(results=tmp_path / "results", tag_trials=True, wait=30)


@pytest.fixture
def new_runs(options: AdkOptions) -> Iterator[Callable[..., Runs]]:
    """Makes the evaluations of a process; those of earlier ones are closed by the test, or here."""
    made: list[Runs] = []

    def make(given: AdkOptions = options, environ: dict[str, str] | None = None) -> Runs:
        made.append(Runs(given, environ or {}))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def tools(new_runs: Callable[..., Runs]) -> Tools:
    return Tools(new_runs())
