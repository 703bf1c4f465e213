"""The literal table of options and markers that the plugin is loaded with (``plugin/run/standby.py``).

``python tests/support/declared.py`` writes it; whoever adds an option or a marker does so, and a test compares.
"""

from __future__ import annotations

import json
from typing import Any

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.plugin.collect import markers
from pytest_a2a_bench.plugin.run import options
from pytest_a2a_bench.plugin.run.standby import DECLARED

COMMAND = "python tests/support/declared.py"


def gather() -> dict[str, Any]:
    """Return the table as it should be."""
    return {**options.declared(), "markers": markers.lines(registry.built_in())}


def _text(value: Any, depth: int = 0) -> str:
    """Return JSON with one row of the table in each line, so that additions of several people merge."""
    if depth == 3 or not isinstance(value, dict | list) or (isinstance(value, dict) and "cli" in value):
        return json.dumps(value, ensure_ascii=False)
    inner = " " * (depth + 1)
    if isinstance(value, dict):
        members = [f"{inner}{json.dumps(name)}: {_text(v, depth + 1)}" for name, v in value.items()]
        return "{\n" + ",\n".join(members) + "\n" + " " * depth + "}"
    return "[\n" + ",\n".join(inner + _text(v, depth + 1) for v in value) + "\n" + " " * depth + "]"


if __name__ == "__main__":
    DECLARED.write_text(_text(gather()) + "\n", encoding="utf-8")
