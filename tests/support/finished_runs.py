"""Results directories as a run leaves them."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import TrialResult
from pytest_a2a_bench.results.manifest import Manifest
from pytest_a2a_bench.results.store import Store


def write_run(
    directory: Path, results: Sequence[TrialResult], *, run_id: str = "run", absent: Sequence[str] = (), **more: Any
) -> Path:
    store = Store(directory)
    store.prepare()
    for result in results:
        store.write(dataclasses.replace(result, run_id=run_id))
    keys = (*(str(r.key) for r in results), *absent)
    settings = dataclasses.asdict(Settings(endpoint="http://127.0.0.1:1"))
    found = Manifest(run_id, "http://127.0.0.1:1", "Readonly 1.0", whole=keys, keys=keys, settings=settings, **more)
    found.write(directory)
    return directory
