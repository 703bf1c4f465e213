"""Agents that are served inside of the tests' own process, and what they leave for the garbage collector.

An agent keeps its connections to webhooks until its event loop is gone, and nobody closes them then. Found by the
collector, they would be an error of whichever test happens to run: so they are nothing here, and gone before another
folder's tests.
"""

import gc
import warnings
from collections.abc import Generator
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Generator[None, None, None]:
    yield
    if nextitem is not None and HERE in nextitem.path.parents:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    # What is still alive is mostly what was imported: later collections need not look at it.
    gc.freeze()
