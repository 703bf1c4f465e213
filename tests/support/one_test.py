"""One test for a family of cases: every case runs, and all that fail are reported together."""

import functools
import inspect
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

Test = Callable[..., None]
_PARAMETERS = type(pytest.param())


def in_one_test(
    names: str | Sequence[str],
    cases: Iterable[Any] | Callable[[], Iterable[Any]],
    *,
    ids: Callable[[Any], Any] | Sequence[str] | None = None,
) -> Callable[[Test], Test]:
    """Call the test with each case, as ``pytest.mark.parametrize`` does, but as one item.

    Fixtures are made once for all cases. A case that skips counts as failed: it would hide itself.

    :param cases: or a function that returns them, where they take time: every worker collects the test, one calls it.
    """
    wanted = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    given = cases if callable(cases) else list(cases)

    def label(number: int, values: Sequence[Any]) -> str:
        if callable(ids):
            return "-".join(str(ids(value)) for value in values)
        return str(ids[number]) if ids else ", ".join(map(repr, values))[:300]

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def run(*arguments: Any, **fixtures: Any) -> None:
            failed = []
            rows = list(given() if callable(given) else given)
            assert rows, "a family without cases proves nothing"
            for number, row in enumerate(rows):
                # pytest.param(...) has them as a member.
                one = row.values if isinstance(row, _PARAMETERS) else row if len(wanted) > 1 else (row,)
                try:
                    test(*arguments, **fixtures, **dict(zip(wanted, one, strict=True)))
                except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
                    failed.append(f"{label(number, one)}:\n{''.join(traceback.format_exception(error, limit=-2))}")
            if failed:
                pytest.fail(f"{len(failed)} of {len(rows)} cases failed\n\n" + "\n".join(failed), pytrace=False)

        parameters = inspect.signature(test).parameters.values()
        # pytest asks a wrapper's own signature for the fixtures that it needs.
        vars(run)["__signature__"] = inspect.Signature([p for p in parameters if p.name not in wanted])
        return run

    return decorate
