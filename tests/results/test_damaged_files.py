"""Files that are damaged in every way, given to every command that reads them: one line, never a traceback."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import run
from examples import some
from one_test import in_one_test
from stored_files import write_files

COMMANDS: dict[str, Callable[[Path], list[str]]] = {
    "promote": lambda root: ["gate", f"{root}/run", "--write-baseline", f"{root}/new.json", "--force"],
    "promote over": lambda root: ["gate", f"{root}/run", "--write-baseline", f"{root}/baseline.json"],
    "report": lambda root: ["export", "html", f"{root}/run", "-o", f"{root}/r.html"],
    "report --baseline": lambda root: [*COMMANDS["report"](root), "--baseline", f"{root}/baseline.json"],
    "report --conformance": lambda root: [*COMMANDS["report"](root), "--conformance", f"{root}/report.json"],
    "merge": lambda root: ["merge", f"{root}/run", "-o", f"{root}/merged"],
    "compare": lambda root: ["compare", f"{root}/run", f"{root}/run"],
    "compare file": lambda root: ["compare", f"{root}/baseline.json", f"{root}/baseline.json"],
    "export": lambda root: ["export", "tau2", f"{root}/run", "-o", f"{root}/t.json", "--allow-incomplete"],
    "rescore": lambda root: ["gate", "--rescore", f"{root}/run"],
}
READ_BY = {
    # Commands that go on without it, and say so: test_one_unreadable_trial_stops_nothing.
    "trial": ("promote", "promote over", "merge"),
    "run": ("promote", "merge", "compare", "export", "rescore"),
    "verdict": ("report",),
    "baseline": ("promote over", "report --baseline", "compare file"),
    "conformance": ("report --conformance",),
}
"""The commands that read each kind of file."""

WRONG = {
    "trial": ("reward_info.value", "duration"),
    "run": ("run_id", "keys.0"),
    "verdict": ("errors", "gates.0.name"),
    "baseline": ("tasks.tau2/mock/create_task_1.errors", "run_ids.0"),
    "conformance": ("seconds", "results.0.status"),
}
"""Two places in each kind of file."""


def put(data: Any, place: str, value: object) -> None:
    *parents, last = place.split(".")
    for name in parents:
        data = data[int(name)] if isinstance(data, list) else data[name]
    data[int(last) if isinstance(data, list) else last] = value


def edited(value: object, which: int = 0) -> Callable[[bytes, str], bytes]:
    def edit(data: bytes, kind: str) -> bytes:
        document = json.loads(data)
        put(document, WRONG[kind][which], value)
        return json.dumps(document).encode()

    return edit


def nested(opening: bytes) -> Callable[[bytes, str], bytes]:
    return lambda data, kind: data.rstrip()[:-1] + b', "more": ' + opening * 100_000


DAMAGES: dict[str, tuple[Callable[[bytes, str], bytes], str]] = {
    "empty": (lambda data, kind: b"", "it is not JSON, or damaged"),
    "truncated": (lambda data, kind: data[: len(data) // 2], "it is not JSON, or damaged"),
    "binary": (lambda data, kind: b"\x89PNG\r\n\x1a\n\x00\xff" * 9, "it is not JSON, or damaged"),
    "a list": (lambda data, kind: b"[" + data + b"]", "the file should be an object, found a list"),
    "null": (lambda data, kind: b"null", "the file should be an object, found null"),
    "deep lists": (nested(b"["), "it is nested too deeply"),
    "deep objects": (nested(b'{"a":'), "it is nested too deeply"),
    "of a newer version": (lambda data, kind: data.replace(b'_version": 1', b'_version": 99', 1), "schema_version"),
    "an object": (edited({"a": 1}), "found an object"),
    "an object elsewhere": (edited({"a": 1}, 1), "found an object"),
    "nothing": (edited(None, 1), "found null"),
    "NaN": (edited(float("nan")), "found nan"),
    "Infinity": (edited(float("inf")), "found inf"),
    "negative": (edited(-1.5, 1), "found -1.5"),
    "text": (edited("x" * 5), "x"),
    "huge": (edited(10**400, 1), "found "),
}
PLACES = ("an object", "an object elsewhere", "nothing", "NaN", "Infinity", "negative", "huge")
"""Of the damages, those of one place, which is named."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Files that nobody changes."""
    return write_files(tmp_path_factory.mktemp("whole"))


@pytest.fixture
def copied(whole: dict[str, Path], tmp_path: Path) -> Callable[[], dict[str, Path]]:
    """Copies of them, in the place of those made before."""

    def copy() -> dict[str, Path]:
        shutil.rmtree(tmp_path)
        shutil.copytree(root_of(whole["run"]), tmp_path)
        return {kind: tmp_path / path.relative_to(root_of(path)) for kind, path in whole.items()}

    return copy


def every_case() -> Iterator[tuple[str, str, str]]:
    for kind, commands in READ_BY.items():
        for damage in DAMAGES:
            if (kind, damage) != ("run", "text"):  # a run's name is any text
                yield from ((kind, damage, command) for command in commands)


@in_one_test(("kind", "damage", "command"), some(every_case(), 4))
def test_a_damaged_file_is_one_line(
    copied: Callable[[], dict[str, Path]], kind: str, damage: str, command: str
) -> None:
    path, (change, words) = copied()[kind], DAMAGES[damage]
    path.write_bytes(change(path.read_bytes(), kind))
    code, _, err = run(*COMMANDS[command](root_of(path)))
    assert code == 2, err
    assert err.startswith("a2a-bench: ")
    assert err.count("\n") == 1
    assert len(err) < 900
    for word in (str(path), words, "; "):
        assert word in err
    if damage in PLACES:
        assert any(place in err for place in WRONG[kind])


WITHOUT: dict[str, tuple[Callable[[Path], list[str]], int, str]] = {
    "show": (lambda root: ["show", "--results", f"{root}/run"], 2, "unproven: has no result file that can be used"),
    "show --why": (lambda root: ["show", "create_task_1", "--why", "--results", f"{root}/run"], 2, "2 of 2 trials did"),
    "show a task": (lambda root: ["show", "create_task_1", "--results", f"{root}/run"], 0, "2 trials of this task"),
    "gate": (lambda root: ["gate", f"{root}/run", "--min-pass", "0"], 1, "2 trials could not be evaluated"),
    "accept": (lambda root: [*COMMANDS["promote"](root), "--allow-incomplete"], 0, "1 of 3 trials succeeded"),
    "compare": (COMMANDS["compare"], 0, "2 trials of B could not be evaluated"),
    "export": (COMMANDS["export"], 0, "counted as a failure: tau2/mock/create_task_1#0"),
    "metrics": (lambda root: ["export", "metrics", f"{root}/run", "-o", f"{root}/m.json"], 2, "written to"),
    "lines": (lambda root: ["export", "metrics", f"{root}/run", "-o", f"{root}/m", "--jsonl"], 2, "written to"),
    "report": (COMMANDS["report"], 0, "1 trial file cannot be read, and the page has no result of it"),
    "rescore": (COMMANDS["rescore"], 2, "5 trials: "),
}
"""Command, exit code, and what it prints, of a run of five trials of which one has an unreadable file."""


@in_one_test("command", WITHOUT)
def test_one_unreadable_trial_stops_nothing(copied: Callable[[], dict[str, Path]], command: str) -> None:
    path = copied()["trial"]
    path.write_text('{"schema_version": 1, "half')
    arguments, expected, words = WITHOUT[command]
    code, out, err = run(*arguments(root_of(path)))
    assert code == expected, out + err
    assert words in out
    if command != "show a task":  # it shows another trial
        assert str(path) in out + err


def test_a_trial_that_a_run_asks_for_twice_counts_nowhere_and_a_setting_has_its_type(
    copied: Callable[[], dict[str, Path]],
) -> None:
    files = copied()
    whole = json.loads(files["run"].read_text("utf-8"))
    for change, words in (
        ({"keys": whole["keys"] + whole["keys"][:1]}, f"keys: {whole['keys'][0]} is there more than once"),
        ({"settings": {"trials": "4"}}, "settings.trials should be a valid integer, found '4'"),
    ):
        files["run"].write_text(json.dumps(whole | change), "utf-8")
        code, _, err = run("gate", str(files["run"].parent), "--min-pass", "0.1")
        assert code == 2, err
        assert words in err


def root_of(path: Path) -> Path:
    return next(parent for parent in path.parents if (parent / "baseline.json").exists())
