from collections.abc import Iterator

import pytest

from pytest_a2a_bench import extensions


@pytest.fixture(autouse=True)
def solver() -> Iterator[None]:
    """Offer the reference solver as the agent ``solver``."""
    extensions.offer("agents", {"solver": "mini_org.agent:make"}, "tests")
    yield
    extensions.withdraw()
