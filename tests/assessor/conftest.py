from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from postgresql import missing, postgresql


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """URL of a database that several assessors may share."""
    if request.param == "sqlite":
        yield f"sqlite+aiosqlite:///{tmp_path}/shared.db"
        return
    pytest.importorskip("asyncpg")
    if why := missing():
        pytest.skip(why)
    with postgresql(tmp_path / "postgresql.log") as url:
        yield url
