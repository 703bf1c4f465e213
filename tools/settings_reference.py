"""Write docs/reference/settings.md from the model of the settings."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.config.load import CORE
from pytest_a2a_bench.config.setting import Setting
from pytest_a2a_bench.config.settings import GROUPS
from pytest_a2a_bench.plugin import options

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "settings.md"

INTRODUCTION = """\
# Settings

Each setting has one name. Its value comes from the first of these sources that has it:

1. the command line: `--a2a-NAME VALUE` for the settings in **bold**, `--a2a-set NAME=VALUE` (repeatable) for all;
2. the environment variable `A2A_NAME`, in capitals and with underscores: `A2A_MAX_STEPS`;
3. the table `[tool.a2a-bench]` of `pyproject.toml`, or of the TOML file that `--a2a-config FILE`, `A2A_CONFIG` or the
   ini key `a2a_config` names; in a file of another name the settings may also be at the top level;
4. the default.

```toml
[tool.a2a-bench]
endpoint = "http://127.0.0.1:9999"
suite = ["airline", "mock"]
concurrency = 8
min-pass = { airline = 0.6 }
max-steps = 100
```

Commands of `a2a-bench` read the same variables, and the table in the directory where they start, or `--config FILE`
(no ini key); `--set` sets one.
`a2a-bench doctor --settings` shows each setting that is not a default, and its source. Relative paths start from the
directory in which pytest was started; in a table, from the directory of its file. A wrong name or value ends the run
before anything is sent, with a line for each problem.

Tokens are no settings: they are in environment variables, whose names `auth-env` and the like give.
"""


def page() -> str:
    """Return the page."""
    return "\n".join([INTRODUCTION, *_sections()]) + "\n"


def _sections() -> Iterator[str]:
    with_option = set(_names_of_options())
    for name, setting in CORE.items():
        if name in GROUPS:
            yield from ("", *_heading(GROUPS[name].removeprefix("a2a: ").capitalize()))
        yield _row(setting, with_option)
    for suite in registry.built_in():
        if suite.options:
            yield from ("", *_heading(f"Benchmark {suite.name}"))
            yield from (_row(setting, with_option) for setting in suite.options)


def _heading(title: str) -> tuple[str, ...]:
    return f"## {title}", "", "| setting, value (default) | meaning |", "|---|---|"


def _row(setting: Setting, with_option: set[str]) -> str:
    value = setting.metavar.replace("|", "\\|")
    default = f" ({setting.shown_default})" if setting.shown_default != "none" else ""
    bold = "**" if setting.name in with_option else ""
    return f"| {bold}`{setting.key}`{bold} `{value}`{default} | {setting.help} |"


def _names_of_options() -> Iterator[str]:
    parser = pytest.Parser(_ispytest=True)
    options.add_options(parser)
    for group in parser._groups:
        yield from (str(option.attrs().get("dest", "")).removeprefix("a2a_") for option in group.options)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"written to {PAGE.name}\n")
