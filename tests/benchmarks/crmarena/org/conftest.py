from collections.abc import Iterator
from contextlib import closing

import pytest
from small_org import open_small_org

from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg


@pytest.fixture(scope="module")
def org() -> Iterator[LocalOrg]:
    """The hand-made org, open for queries."""
    with closing(open_small_org()) as opened:
        yield opened
