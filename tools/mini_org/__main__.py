"""Write the data files of the mini org: ``PYTHONPATH=tools python -m mini_org``."""

from __future__ import annotations

import gzip
from pathlib import Path

from mini_org.files import make_files

DATA = Path(__file__).parents[2] / "pytest_a2a_bench" / "benchmarks" / "crmarena" / "data"

if __name__ == "__main__":
    for name, content in make_files().items():
        # mtime=0: the same content gives the same file on this machine.
        (DATA / name).write_bytes(gzip.compress(content, 9, mtime=0))
        print(f"{DATA / name}: {(DATA / name).stat().st_size} bytes")
