"""Settings as a pytest run resolves them, from options, variables and a table."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pytest_a2a_bench.plugin.resolve import Resolution, resolve


def resolved(
    root: Path,
    options: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    table: Mapping[str, Any] | None = None,
    started: str = "",
) -> Resolution:
    """Resolve the settings of a project.

    :param root: its directory; a table is written into its pyproject.toml.
    :param options: values of pytest's options by ``dest``; settings without an option are given as if they had one.
    :param started: the directory below it that pytest was started in.
    """
    given = dict(options or {})
    if table:
        # JSON's text, numbers, lists and words are TOML's, too.
        lines = [f"{key} = {json.dumps(value)}" for key, value in table.items()]
        (root / "pyproject.toml").write_text("\n".join(["[tool.a2a-bench]", *lines]))
    config: Any = SimpleNamespace(
        getoption=lambda name, default=None: given.get(name, default),
        getini=lambda name: "",
        rootpath=root,
        invocation_params=SimpleNamespace(dir=root / started),
    )
    return resolve(config, environ or {})
