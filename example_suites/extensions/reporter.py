"""A report of our own: ``a2a-bench export csv DIR -o trials.csv``."""

from __future__ import annotations

import csv
import io

from pytest_a2a_bench.reports.html import Contents


def as_csv(contents: Contents) -> str:
    """Write a row for each trial."""
    file = io.StringIO()
    rows = csv.writer(file)
    rows.writerow(["trial", "status", "reward"])
    rows.writerows([str(t.key), t.status, t.reward] for t in contents.trials)
    return file.getvalue()
