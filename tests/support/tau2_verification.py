"""Finished trials run against the stock tau2: what it makes of the recorded conversation, compared with what we made.

Compared are every message with every tool's answer, how the conversation ended, the whole ``reward_info``, what our
results say of it, and with a language model as user (or judge) every request that its model was sent.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from pytest_a2a_bench.benchmarks.tau2 import evaluate, index, llm, retrieval, upstream
from pytest_a2a_bench.benchmarks.tau2.evaluate import differences, short
from pytest_a2a_bench.benchmarks.tau2.index import find_edition
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import TrialResult
from pytest_a2a_bench.model.messages import to_plain
from pytest_a2a_bench.results.store import Store

SCRIPT = Path(__file__).with_name("tau2_stock.py")

_OF_THE_MOMENT = frozenset({"timestamp", "generation_time_seconds"})
"""Members of a message that say when, and never what."""

_OF_THE_WAY = frozenset({"api_base", "api_key", "num_retries", "caching"})
"""Arguments of LiteLLM's that are in no request."""

Calls = Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]
"""Requests to a model, each with its answer (``FakeLLM``)."""
Asked = Mapping[str, Calls]

_OF_THE_BILL = frozenset({"cost", "raw_data"})
"""Members of a message of the user's model that LiteLLM reckons, or takes from headers; they are of no request."""


@dataclass(frozen=True, slots=True)
class Verification:
    """What came of holding a finished trial against the stock tau2.

    :param status: ``verified`` where all is the same and ``differs`` where it is not; ``not_verifiable`` where the
        stock tau2 has nothing to compare with.
    :param reason: why it is not verifiable.
    :param differences: what is different, one line each with both sides.
    :param by: what it was run against: a distribution and its version.
    """

    status: Literal["verified", "differs", "not_verifiable"]
    reason: str = ""
    differences: tuple[str, ...] = ()
    by: str = ""


def verify_stored(directory: Path, **settings: Any) -> list[Verification]:
    """Return what the stock tau2 says of every trial of a results directory."""
    with Tau2Verifier(Settings(**settings)) as verifier:
        return [verifier.verify(result) for result in Store(directory).read_all()]


class Tau2Verifier:
    """Plays finished trials back with the stock tau2 in a process that has nothing of this package.

    :param settings: the run's.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._edition = find_edition(settings)
        installed = index.find_installation()
        # -P and a path: no module of ours is in the way of tau2's own. No prices from the network, no .env file.
        quiet = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "PYTHON_DOTENV_DISABLED": "1", "LOGURU_AUTOINIT": "False"}
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(SCRIPT), str(installed.package.parent), str(self._edition.data)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **quiet},
        )
        self._found: dict[str, Any] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def verify(self, result: TrialResult, asked: Asked | None = None) -> Verification:
        """Verify a finished trial.

        :param asked: ``user`` and ``judge`` -> the requests to its model and their answers, where a model played it.
        """
        by, asked = self._edition.benchmark(result.key.domain), asked or {}
        if reason := _why_not(result, by, asked):
            return Verification("not_verifiable", reason, by=by)
        played = self.replay(make_job(result, self.settings, asked))
        if result.status == "evaluator_error" and played["raised"]:
            found = tuple(_conversation(result, played, asked))
            if not found:
                return Verification("not_verifiable", f"stock evaluator raises {played['raised']}", by=by)
        else:
            found = tuple(compare(result, played, asked))
        return Verification("differs" if found else "verified", differences=found, by=by)

    def replay(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Return what tau2 makes of a recorded conversation (see ``tau2_stock.Stock.replay``)."""
        if self._found is None:
            self._found = self._read()
            assert Path(self._found["package"]).resolve() == index.find_installation().package.resolve()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job).encode() + b"\n")
        self._process.stdin.flush()
        reply = self._read()
        assert "trouble" not in reply, reply["trouble"]
        return reply

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        found: dict[str, Any] = json.loads(self._process.stdout.readline(), parse_constant=str)
        return found


def _why_not(result: TrialResult, installed: str, asked: Asked) -> str:
    stated = result.provenance
    if result.simulation is None:
        return "its file has no conversation in tau2's form"
    if stated.get("benchmark") != installed:
        return f"it was evaluated with {stated.get('benchmark')}, and {installed} is installed"
    has_ended = result.termination_reason in ("user_stop", "agent_stop")
    lacks = {"user": stated.get("user") == "llm", "judge": stated.get("judge") and has_ended}
    return next(
        (f"what the {who}'s model was asked is not known" for who in lacks if lacks[who] and who not in asked), ""
    )


def make_job(result: TrialResult, settings: Settings, asked: Asked) -> dict[str, Any]:
    """Return what the stock tau2 needs to play a finished trial."""
    simulation, received = result.simulation or {}, result.provenance
    return {
        "domain": result.key.domain,
        "task": index.load_task_json(result.key.domain, result.key.task_id, find_edition(settings).data),
        "messages": simulation["messages"],
        "termination_reason": simulation["termination_reason"],
        "seed": result.seed,
        "max_steps": received["max_steps"],
        "max_errors": received["max_errors"],
        **_documents(received.get("retrieval"), settings),
        "user": _player(received.get("user_llm"), llm.user_arguments(settings), asked.get("user", ())),
        "judge": _player(received.get("judge"), {"temperature": 0.0}, asked.get("judge", ())),
    }


def find_unrepeatable(tau2: upstream.Tau2, name: str) -> tuple[str, ...]:
    """Return the tools of a retrieval configuration that ask a model or a shell, which may answer otherwise now."""
    variant = retrieval._find(tau2, name)
    searches = {tool: getattr(variant, member, None) for member, tool in retrieval._SEARCH_TOOLS.items()}
    asking = [tool for tool, search in searches.items() if search and (search.type == "embedding" or search.reranker)]
    return (*asking, *(("shell",) if getattr(variant, "shell", None) is not None else ()))


def _documents(name: Any, settings: Settings) -> dict[str, Any]:
    """Return what the stock tau2 is to know of how documents were found; what asks elsewhere is not asked again."""
    if not name:
        return {"environment": {}, "recorded_tools": ()}
    tau2 = upstream.load(data=find_edition(settings).data)
    return {
        "environment": {"retrieval_config": name},
        "recorded_tools": find_unrepeatable(tau2, str(name)),
    }


def _player(model: Any, args: Mapping[str, Any], calls: Calls) -> dict[str, Any] | None:
    """Return who is played by a model, with its answers."""
    return {"model": model, "args": dict(args), "answers": [answer for _, answer in calls]} if model else None


# --- comparison -------------------------------------------------------------------------------------------------------


def compare(result: TrialResult, played: Mapping[str, Any], asked: Asked) -> Iterator[str]:
    """Say what is different, one line for each difference with both sides."""
    yield from _conversation(result, played, asked)
    if played["diverged"]:
        return
    ours = result.reward_info
    if (ours is None) is not (played["reward_info"] is None):
        here = f"a reward of {ours.value:g}" if ours else f"none ({result.error})"
        stock = f"raises {played['raised']}" if played["raised"] else f"a reward of {played['reward_info']['reward']:g}"
        yield f"evaluation: stock {stock}, here {here}"
    elif ours is not None:
        yield from _lines("reward_info", played["reward_info"], _plain(ours.info))
        again = evaluate.to_reward(played["reward_info"])
        for name in ("value", "basis", "breakdown", "checks"):
            # What is shown of upstream's words, which could be said wrongly.
            yield from _lines(f"reward.{name}", _shown(getattr(again, name)), _shown(getattr(ours, name)))


def _conversation(result: TrialResult, played: Mapping[str, Any], asked: Asked) -> Iterator[str]:
    if played["diverged"]:
        yield f"conversation: {played['diverged']}"
    simulation = _plain(result.simulation)
    by_model = result.provenance.get("user") == "llm"
    ours = [_said(message, by_model) for message in simulation["messages"]]
    stock = [_said(message, by_model) for message in played["messages"]]
    for place, (left, right) in enumerate(zip(stock, ours, strict=False)):
        yield from _lines(f"messages[{place}]", left, right)
    if len(stock) != len(ours):
        yield f"messages: stock {len(stock)}, here {len(ours)}"
    if not played["diverged"]:
        yield from _lines("termination_reason", played["termination_reason"], simulation["termination_reason"])
    for who, requests in played["asked"].items():
        yield from _requests(who, list(map(_body, requests)), [_body(request) for request, _ in asked.get(who, ())])


def _body(request: Mapping[str, Any]) -> Any:
    """Return what a model is asked, of LiteLLM's arguments or of the body that it makes of them."""
    body = {name: value for name, value in request.items() if name not in _OF_THE_WAY}
    return _without_none(_plain({**body, "model": str(request["model"]).rpartition("/")[2]}))


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_none(each) for name, each in value.items() if each is not None}
    return [_without_none(each) for each in value] if isinstance(value, list) else value


def _requests(who: str, stock: list[Any], ours: list[Any]) -> Iterator[str]:
    for place, (left, right) in enumerate(zip(stock, ours, strict=False)):
        yield from _lines(f"requests to the {who}'s model[{place}]", left, right)
    if len(stock) != len(ours):
        yield f"requests to the {who}'s model: stock {len(stock)}, here {len(ours)}"


def _lines(path: str, stock: Any, ours: Any) -> Iterator[str]:
    for place, left, right in differences(stock, ours, path):
        there, here = both(left, right)
        yield f"{place}: stock {there}, here {here}"


def _said(message: Mapping[str, Any], by_model: bool) -> dict[str, Any]:
    left_out = _OF_THE_MOMENT | (_OF_THE_BILL if by_model and message["role"] == "user" else frozenset())
    return {name: value for name, value in message.items() if name not in left_out}


def _shown(value: Any) -> Any:
    return _plain(to_plain(value))


def _plain(value: Any) -> Any:
    """Return a value as the other side has it: through JSON, where what is no number is a word."""
    return json.loads(json.dumps(value, default=str), parse_constant=str)


def both(left: Any, right: Any, room: int = 160) -> tuple[str, str]:
    """Return two different values as JSON, each cut to where they begin to differ."""
    one, other = short(left, sys.maxsize), short(right, sys.maxsize)
    same = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    begin = max(0, same - room // 4)
    return _window(one, begin, room), _window(other, begin, room)


def _window(text: str, begin: int, room: int) -> str:
    cut = text[begin : begin + room]
    return ("..." if begin else "") + cut + ("..." if begin + room < len(text) else "")
