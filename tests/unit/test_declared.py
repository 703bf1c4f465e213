"""The literal table that the plugin is loaded with is what the tables of options and the suites come to."""

from __future__ import annotations

import json

from declared import COMMAND, gather

from pytest_a2a_bench.plugin.run.standby import DECLARED


def test_the_literal_table_is_up_to_date() -> None:
    stored = json.loads(DECLARED.read_text(encoding="utf-8"))
    assert stored == json.loads(json.dumps(gather())), f"an option or a marker changed; run: {COMMAND}"
