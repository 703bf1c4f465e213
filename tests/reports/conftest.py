from __future__ import annotations

from collections.abc import Iterator

import browser as browser_support
import pytest


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browser_support.Browser]:
    """Return a real Chromium."""
    if why := browser_support.missing():
        pytest.skip(why)
    with browser_support.chromium(tmp_path_factory.mktemp("profile")) as started:
        yield started
