"""The members that a request's configuration may have, and how each is read (pure)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, get_args

from pytest_a2a_bench.benchmarks.crmarena.options import DRIFTS, SCORINGS
from pytest_a2a_bench.redact import one_line
from pytest_a2a_bench.results.stored import described
from pytest_a2a_bench.settings import DIALECTS, HISTORIES, PROTOCOLS, STREAMING, TOOLS, TRANSPORTS

Evaluation = Literal["tau2", "crmarena", "conformance"]
EVALUATIONS: tuple[Evaluation, ...] = get_args(Evaluation)

_MOST_IDS = 5000
_LONGEST_ID = 500
_MOST = 10**6

MODEL_ARGUMENTS = ("temperature", "top_p", "max_tokens", "seed")
"""Arguments of the user's model that a caller may set. An ``api_base`` would send the operator's key to its host."""


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > _LONGEST_ID:
        raise ValueError("a text")
    return value.strip()


def _whole(least: int, most: int = _MOST) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        # What travels as a DataPart has no whole numbers: 4 arrives as 4.0.
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not least <= value <= most or value != int(value):
            raise ValueError(f"a whole number from {least} to {most}")
        return int(value)

    return read


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _MOST:
        raise ValueError("a number of seconds above 0")
    return float(value)


def _switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def _ids(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not 0 < len(value) <= _MOST_IDS:
        raise ValueError(f"a list of 1 to {_MOST_IDS} task ids")
    return tuple(dict.fromkeys(_id(one) for one in value))


def _id(value: Any) -> str:
    if isinstance(value, str) and 0 < len(value) <= _LONGEST_ID:
        return value
    return str(_whole(0, 10**9)(value))


def _categories(value: Any) -> tuple[str, ...]:
    if value == "all":
        return ()
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not 0 < len(names) <= 100 or not all(isinstance(n, str) for n in names):
        raise ValueError('"all", or a list of categories')
    return () if "all" in names else tuple(dict.fromkeys(names))


def _one_of(*choices: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in choices:
            raise ValueError(f"one of {', '.join(choices)}")
        return value

    return read


def _model_arguments(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError("an object")
    for name, number in value.items():
        if name not in MODEL_ARGUMENTS:
            raise ValueError(f"an object of {', '.join(MODEL_ARGUMENTS)}, without {shown(name)}")
        if isinstance(number, bool) or not isinstance(number, int | float) or not abs(number) <= _MOST:
            raise ValueError(f"an object of numbers; {name} is {kind_of(number)}")
    whole = ("max_tokens", "seed")
    return {name: int(number) if name in whole else number for name, number in value.items()}


class Field(NamedTuple):
    """A member of a configuration.

    :param name: the member of :class:`Request` that it becomes.
    :param read: returns its value; its ValueError says what was expected.
    :param of: the evaluations that it means something to.
    :param is_shown: whether messages may quote its value; not where somebody may write a secret by mistake.
    """

    name: str
    read: Callable[[Any], Any]
    of: tuple[Evaluation, ...] = ("tau2", "crmarena")
    is_shown: bool = True


_CRM: tuple[Evaluation, ...] = ("crmarena",)
_TAU2: tuple[Evaluation, ...] = ("tau2",)

FIELDS: dict[str, Field] = {
    "evaluation": Field("evaluation", _one_of(*EVALUATIONS), EVALUATIONS),
    "domain": Field("domain", _text, EVALUATIONS),
    "env": Field("domain", _text, EVALUATIONS),
    "org_type": Field("domain", _text, _CRM),
    "num_tasks": Field("num_tasks", _whole(1)),
    "max_tasks": Field("num_tasks", _whole(1)),
    "task_ids": Field("task_ids", _ids),
    "num_trials": Field("num_trials", _whole(1, 100)),
    "seed": Field("seed", _whole(0, 2**31)),
    "split": Field("split", _text, _TAU2),
    "task_split": Field("split", _text, _TAU2),
    "max_steps": Field("max_steps", _whole(1), _TAU2),
    "user_llm": Field("user_llm", _text),
    "user_llm_args": Field("user_llm_args", _model_arguments),
    "concurrency": Field("concurrency", _whole(1, 1000)),
    "max_concurrency": Field("concurrency", _whole(1, 1000)),
    "timeout": Field("timeout", _seconds, EVALUATIONS),
    "agent_token": Field("agent_token", _text, EVALUATIONS, is_shown=False),
    "dialect": Field("dialect", _one_of(*DIALECTS)),
    "history": Field("history", _one_of(*HISTORIES)),
    "protocol": Field("protocol", _one_of(*PROTOCOLS)),
    "transport": Field("transport", _one_of(*TRANSPORTS)),
    "streaming": Field("streaming", _one_of(*STREAMING)),
    "user_retry": Field("user_retry", _whole(0, 10)),
    "edition": Field("edition", _text, _TAU2),
    "retrieval": Field("retrieval", _text, _TAU2),
    "retrieval_config": Field("retrieval", _text, _TAU2),
    "max_errors": Field("max_errors", _whole(1), _TAU2),
    "tools": Field("tools", _one_of(*TOOLS)),
    "tag_trials": Field("tag_trials", _switch),
    "shard_index": Field("shard_index", _whole(0)),
    "num_shards": Field("num_shards", _whole(1)),
    "task_category": Field("task_categories", _categories, _CRM),
    "interactive": Field("interactive", _switch, _CRM),
    "scoring": Field("scoring", _one_of(*SCORINGS), _CRM),
    "aided": Field("aided", _switch, _CRM),
    "drift": Field("drift", _one_of("none", *DRIFTS), _CRM),
    "rot": Field("rot", _switch, _CRM),
    "max_turns": Field("max_turns", _whole(1, 1000), _CRM),
    "max_user_turns": Field("max_user_turns", _whole(1, 1000), _CRM),
    "strict": Field("strict", _switch, ("conformance",)),
}
"""Every member that a configuration may have; several may be spellings of one."""


def shown(value: object) -> str:
    """Return a value as a message shows it."""
    return one_line(repr(value), 80)


def quoted(value: Any) -> str:
    """Return a value, or its kind where that is not short."""
    return kind_of(value) if isinstance(value, Mapping | list | tuple) else shown(value)


def kind_of(value: Any) -> str:
    """Say in JSON's words what a value is."""
    return "a text" if isinstance(value, str) else described(value)
