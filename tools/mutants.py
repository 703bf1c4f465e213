"""Count the mutants of modules that their tests kill: ``python tools/mutants.py`` tries the rooms that decide verdicts.

A mutant is the module with one small change (a comparison turned round, a condition negated, a number raised by one,
a returned value lost, a call left out). The sample depends on the seed and the modules' text alone, so that the same
mutants can be tried before and after the tests are changed: ``--root DIR`` takes another checkout.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType

PACKAGE = "pytest_a2a_bench"
ROOMS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "gates": (
        tuple(f"results/gates/{name}" for name in ("judge", "noise", "terms", "early")),
        ("results/gates", "results/test_noise_gate.py", "config/test_rates.py"),
    ),
    "statistics": (
        ("results/stats", "results/inference", "results/compare", "results/baseline"),
        (
            "results/test_stats.py",
            "results/test_inference.py",
            "results/test_compare.py",
            "results/test_baseline.py",
        ),
    ),
    "trials": (("trials/runner", "trials/trial", "trials/stopping", "trials/pool"), ("trials",)),
    "store": (
        ("results/store", "results/merge", "results/manifest"),
        (
            "results/test_store.py",
            "results/test_merge.py",
            "results/test_damaged_files.py",
            "benchmarks/tau2/test_rescore.py",
        ),
    ),
    "evaluate": (
        ("benchmarks/tau2/evaluate",),
        tuple(
            f"benchmarks/tau2/test_{n}.py"
            for n in ("evaluate", "rescore", "importing", "shortcuts", "agent", "extra_turn")
        ),
    ),
    "crm": (
        tuple(f"benchmarks/crmarena/{name}" for name in ("score/__init__", "score/answers", "episode", "actions"))
        + tuple(f"benchmarks/crmarena/org/soql/{name}" for name in ("__init__", "conditions", "scope", "parser")),
        tuple(
            f"benchmarks/crmarena/{name}" for name in ("score", "org", "test_crm_episode.py", "test_crm_dialects.py")
        ),
    ),
    "checks": (
        tuple(
            f"conformance/checks/{name}"
            for name in ("binding", "data_model", "errors", "list_tasks", "push", "send", "streaming", "tasks", "auth")
        ),
        tuple(
            f"conformance/test_{n}.py"
            for n in (
                *("checks_alone", "requirements", "mutation", "named_faults", "grouping", "checks_v03"),
                *("checks_auth", "checks_basic", "variants", "checks_operations", "obstacles"),
            )
        ),
    ),
}
"""Name -> the modules of a room and the tests that mirror them."""

_PAIRS = (
    *((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.In, ast.NotIn), (ast.Is, ast.IsNot)),
    *((ast.And, ast.Or), (ast.Add, ast.Sub), (ast.Mult, ast.Div)),
)
_OTHER: dict[type[ast.AST], type[ast.AST]] = {old: new for a, b in _PAIRS for old, new in ((a, b), (b, a))}


def changed(node: ast.AST) -> ast.AST | None:
    """Return what a mutant has in the place of a node; None if the node stays as it is."""
    match node:
        case ast.Compare(left, [op], [right]):
            return ast.Compare(left, [_OTHER[type(op)]()], [right])  # type: ignore[list-item]
        case ast.BoolOp(op, values):
            return ast.BoolOp(_OTHER[type(op)](), values)  # type: ignore[arg-type]
        case ast.BinOp(left, op, right) if type(op) in _OTHER:
            return ast.BinOp(left, _OTHER[type(op)](), right)  # type: ignore[arg-type]
        case ast.UnaryOp(ast.Not(), operand):
            return operand
        case ast.Constant(bool(value)):
            return ast.Constant(not value)
        case ast.Constant(int(value) | float(value)):
            return ast.Constant(value + 1)
        case ast.Return(ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            return ast.Return(ast.Constant(None))
        case ast.Expr(ast.Call() | ast.Await()):
            return ast.Pass()
    return None


def mutants(source: str) -> Iterator[tuple[str, str]]:
    """Yield each mutant of a module: where and what was changed, and its source."""
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    inside_functions = [
        node
        for function in ast.walk(ast.parse(source))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for statement in function.body
        for node in ast.walk(statement)
    ]
    for node in sorted({id(n): n for n in inside_functions}.values(), key=lambda n: getattr(n, "lineno", 0)):
        if (other := changed(node)) is None:
            continue
        assert isinstance(node, ast.expr | ast.stmt)
        first = starts[node.lineno - 1] + node.col_offset
        last = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        old, new = source.encode()[first:last].decode(), ast.unparse(ast.fix_missing_locations(other))
        new = f"({new})" if isinstance(node, ast.expr) else new
        text = (source.encode()[:first] + new.encode() + source.encode()[last:]).decode()
        yield f"{node.lineno}: {' '.join(old.split())[:60]} -> {' '.join(new.split())[:60]}", text


def put_in_place(root: Path, module: str, source: str) -> None:
    """Import a mutant as the module; now, for pytest reads the modules of a plugin itself."""
    name = f"{PACKAGE}.{module.replace('/', '.')}".removesuffix(".__init__")
    path = str(root / PACKAGE / f"{module}.py")

    class Mutant(SourceFileLoader):
        def get_code(self, fullname: str) -> CodeType:
            return compile(source, path, "exec")

    class Finder:
        """Finds the mutant also where its package imports it first."""

        @staticmethod
        def find_spec(fullname: str, *_: object) -> ModuleSpec | None:
            return (
                importlib.util.spec_from_file_location(name, path, loader=Mutant(name, path))
                if fullname == name
                else None
            )

    sys.meta_path.insert(0, Finder)
    importlib.import_module(name)


def killed(root: Path, module: str, source: str, tests: list[str], seconds: float) -> bool:
    """Return whether the tests fail with a mutant, or hang: they run in a fork."""
    import pytest

    child = os.fork()
    if not child:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDWR), 1)
        os.dup2(1, 2)
        try:
            put_in_place(root, module, source)
            os._exit(int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests])))
        finally:
            os._exit(1)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status != 0
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def main() -> None:
    """Try the sample of each room, and print what survives."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="*", default=list(ROOMS), metavar="ROOM", help=", ".join(ROOMS))
    parser.add_argument("--many", type=int, default=40, help="Mutants of each room (default 40)")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--seconds", type=float, default=300, help="After this long a run counts as killed")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1])
    parser.add_argument("--out", type=Path, help="Write all verdicts to a JSON file")
    told = parser.parse_args()
    root: Path = told.root.resolve()
    os.chdir(root)
    sys.path.insert(0, str(root))
    # Imported once, for every fork.
    for heavy in ("pytest", "httpx", "pydantic", "a2a.types"):
        importlib.import_module(heavy)
    verdicts: dict[str, dict[str, bool]] = {}
    for room in told.rooms:
        modules, tests = ROOMS[room]
        paths = [str(root / "tests" / test) for test in tests]
        all_ = [(m, *mutant) for m in modules for mutant in mutants((root / PACKAGE / f"{m}.py").read_text("utf-8"))]
        verdicts[room] = {}
        if killed(root, modules[0], (root / PACKAGE / f"{modules[0]}.py").read_text("utf-8"), paths, 10 * told.seconds):
            raise SystemExit(f"the tests of {room} fail without a mutant")
        for module, what, source in random.Random(f"{told.seed} {room}").sample(all_, min(told.many, len(all_))):
            verdicts[room][f"{module}.py:{what}"] = killed(root, module, source, paths, told.seconds)
        dead = sum(verdicts[room].values())
        print(f"{room}: {dead} of {len(verdicts[room])} killed", flush=True)
        print("".join(f"  survives: {name}\n" for name, gone in verdicts[room].items() if not gone), end="", flush=True)
        if told.out:
            told.out.write_text(json.dumps(verdicts, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
