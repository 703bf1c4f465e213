"""Finished trials run against the stock tau2: what it makes of the recorded conversation, compared with what we made.

Compared are every message with every tool's answer, how the conversation ended, the whole ``reward_info``, what our
results say of it, and with a language model as user (or judge) every request that its model was sent.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pytest_a2a_bench.benchmarks.tau2 import evaluate, index, llm
from pytest_a2a_bench.benchmarks.tau2.evaluate import short
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import TrialResult
from pytest_a2a_bench.model.messages import to_plain
from pytest_a2a_bench.results.store import Store

SCRIPT = Path(__file__).with_name("tau2_stock.py")

_OF_THE_MOMENT = frozenset({"timestamp", "generation_time_seconds"})
"""Members of a message that say when, and never what."""

_OF_THE_WAY = frozenset({"api_base", "api_key", "num_retries", "caching"})
"""Arguments of LiteLLM's that are in no request."""

_OF_THE_BILL = frozenset({"cost", "raw_data"})
"""Members of a message of the user's model that LiteLLM reckons, or takes from headers; they are of no request."""

Calls = Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]
"""Requests to a model, each with its answer (``FakeLLM``)."""


def verify_stored(directory: Path) -> list[str]:
    """Return how the stock tau2 differs about the trials of a results directory."""
    results = Store(directory).read_all()
    assert results
    with StockTau2(Settings()) as stock:
        return [line for result in results for line in stock.differences(result)]


class StockTau2:
    """Plays finished trials back with the stock tau2 in a process that has nothing of this package.

    :param settings: the run's.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        # -P and a path: no module of ours is in the way of tau2's own. No prices from the network, no .env file.
        quiet = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "PYTHON_DOTENV_DISABLED": "1", "LOGURU_AUTOINIT": "False"}
        root = index.find_installation().package.parent
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(SCRIPT), str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **quiet},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def differences(self, result: TrialResult, *, user: Calls = (), judge: Calls = ()) -> list[str]:
        """Say how stock tau2's trial differs from a finished one, a line for each difference with both sides.

        :param user: what the model that played the user was asked, with its answers; ``judge`` likewise.
        """
        assert result.provenance["benchmark"] == index.find_installation().distribution
        asked = {"user": user, "judge": judge}
        played = self._replay(make_job(result, self.settings, asked))
        found = list(_conversation(result, played, asked))
        if not played["diverged"] and (result.status != "evaluator_error" or not played["raised"]):
            found += _evaluation(result, played)
        return found

    def _replay(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Return what tau2 makes of a recorded conversation (see ``tau2_stock.Stock.replay``)."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job).encode() + b"\n")
        self._process.stdin.flush()
        reply: dict[str, Any] = json.loads(self._process.stdout.readline(), parse_constant=str)
        assert "trouble" not in reply, reply["trouble"]
        return reply


def make_job(result: TrialResult, settings: Settings, asked: Mapping[str, Calls]) -> dict[str, Any]:
    """Return what the stock tau2 needs to play a finished trial."""
    simulation, received = result.simulation or {}, result.provenance
    models = {"user": (received.get("user_llm"), llm.user_arguments(settings)),
              "judge": (received.get("judge"), {"temperature": 0.0})}  # fmt: skip
    return {
        "domain": result.key.domain,
        "task": index.load_task_json(result.key.domain, result.key.task_id),
        "messages": simulation["messages"],
        "termination_reason": simulation["termination_reason"],
        "seed": result.seed,
        "max_steps": received["max_steps"],
        "max_errors": received["max_errors"],
        **{who: _player(*model, asked[who]) for who, model in models.items()},
    }


def _player(model: Any, args: Mapping[str, Any], calls: Calls) -> dict[str, Any] | None:
    """Return who is played by a model, with its answers."""
    return {"model": model, "args": dict(args), "answers": [answer for _, answer in calls]} if model else None


# --- comparison -------------------------------------------------------------------------------------------------------


def _evaluation(result: TrialResult, played: Mapping[str, Any]) -> Iterator[str]:
    ours, stock = result.reward_info, played["reward_info"]
    yield from _lines("evaluation", played["raised"], None if ours else result.error)
    if ours is not None and stock is not None:
        yield from _lines("reward_info", stock, _plain(ours.info))
        again = evaluate.to_reward(stock)
        for name in ("value", "basis", "breakdown", "checks"):
            # What is shown of upstream's words, which could be said wrongly.
            shown = (_plain(to_plain(getattr(each, name))) for each in (again, ours))
            yield from _lines(f"reward.{name}", *shown)


def _conversation(result: TrialResult, played: Mapping[str, Any], asked: Mapping[str, Calls]) -> Iterator[str]:
    if played["diverged"]:
        yield f"conversation: {played['diverged']}"
    simulation = _plain(result.simulation)
    by_model = result.provenance.get("user") == "llm"
    stock, ours = ([_said(m, by_model) for m in messages] for messages in (played["messages"], simulation["messages"]))
    yield from _list_lines("messages", stock, ours)
    if not played["diverged"]:
        yield from _lines("termination_reason", played["termination_reason"], simulation["termination_reason"])
    for who, requests in played["asked"].items():
        ours = [_body(request) for request, _ in asked[who]]
        yield from _list_lines(f"requests to the {who}'s model", list(map(_body, requests)), ours)


def _body(request: Mapping[str, Any]) -> Any:
    """Return what a model is asked, of LiteLLM's arguments or of the body that it makes of them."""
    body = {name: value for name, value in request.items() if name not in _OF_THE_WAY}
    return _without_none(_plain({**body, "model": str(request["model"]).rpartition("/")[2]}))


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_none(each) for name, each in value.items() if each is not None}
    return [_without_none(each) for each in value] if isinstance(value, list) else value


def _list_lines(path: str, stock: list[Any], ours: list[Any]) -> Iterator[str]:
    for place, (left, right) in enumerate(zip(stock, ours, strict=False)):
        yield from _lines(f"{path}[{place}]", left, right)
    yield from _lines(f"number of {path}", len(stock), len(ours))


def _lines(path: str, stock: Any, ours: Any) -> Iterator[str]:
    for place, left, right in evaluate.differences(stock, ours, path):
        yield f"{place}: stock {short(left)}, here {short(right)}"


def _said(message: Mapping[str, Any], by_model: bool) -> dict[str, Any]:
    left_out = _OF_THE_MOMENT | (_OF_THE_BILL if by_model and message["role"] == "user" else frozenset())
    return {name: value for name, value in message.items() if name not in left_out}


def _plain(value: Any) -> Any:
    """Return a value as the other side has it: through JSON, where what is no number is a word."""
    return json.loads(json.dumps(value, default=str), parse_constant=str)
