"""Reports by reporters of others: functions that make a file's text of all that the report page shows."""

from __future__ import annotations

from pathlib import Path

from pytest_a2a_bench import extensions
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.reports.html.contents import Contents
from pytest_a2a_bench.results.store import write_atomically


def write_with(name: str, path: Path, contents: Contents) -> Path:
    """Write a report whole or not at all, readable by its owner only: it may hold what was said.

    :param name: the reporter's.
    :return: the file.
    :raises ConfigurationError: if there is no such reporter, it raises, or returns something else than text.
    :raises OSError: if the file cannot be written.
    """
    reporter = extensions.load("reporters", name)
    try:
        text = reporter(contents)
    except KeyboardInterrupt:
        raise
    # Somebody's own code: what is wrong with it is for its author to read, in one line. Also what ends a process, or is
    # pytest's own: a run that failed must not end well for it.
    except BaseException as error:
        raise ConfigurationError(f"the reporter {name!r} failed: {type(error).__name__}: {error}") from error
    if not isinstance(text, str):
        raise ConfigurationError(f"the reporter {name!r} returned {type(text).__name__}, not the text of its file")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text)
    return path
