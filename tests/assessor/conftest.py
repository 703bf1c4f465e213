import contextlib
import os
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

BINARIES = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)


def missing() -> str:
    """Tell why there is no PostgreSQL to start; empty where there is one."""
    if BINARIES is None or os.getuid() != 0 or shutil.which("runuser") is None:
        return "no PostgreSQL here that can be started (Debian: apt-get install postgresql, as root)"
    return ""


@contextlib.contextmanager
def postgresql(log: Path) -> Iterator[str]:
    """Run a server as long as the context lasts, and give SQLAlchemy's URL.

    :param log: the server's own.
    """
    assert BINARIES is not None, missing()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    place = Path("/tmp") / f"a2a-pg-{uuid.uuid4().hex[:8]}"
    place.mkdir(mode=0o700)
    shutil.chown(place, "postgres")
    output = log.open("w")
    try:
        settings = ["-D", str(place / "data")]
        subprocess.run(
            [BINARIES / "initdb", *settings, "-A", "trust"], user="postgres", check=True, stdout=output, cwd="/"
        )
        arguments = ["-h", "127.0.0.1", "-p", str(port), "-k", str(place)]
        server = subprocess.Popen(
            [BINARIES / "postgres", *settings, *arguments], user="postgres", stderr=output, cwd="/"
        )
        try:
            deadline = time.monotonic() + 60
            asking: list[str | Path] = [BINARIES / "pg_isready", "-h", "127.0.0.1", "-p", str(port)]
            while subprocess.run(asking, stdout=output, check=False).returncode:
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.1)
            yield f"postgresql+asyncpg://postgres@127.0.0.1:{port}/postgres"
        finally:
            server.terminate()
            server.wait(30)
    finally:
        output.close()
        shutil.rmtree(place)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite+aiosqlite:///{tmp_path}/shared.db"
        return
    pytest.importorskip("asyncpg")
    if why := missing():
        pytest.skip(why)
    with postgresql(tmp_path / "postgresql.log") as url:
        yield url
