"""An OpenAI-compatible chat completion server with scripted answers, over real HTTP.

In tests::

    with FakeLLM([say("Hello."), call("get_user", {"user_id": "u1"}), status(429), say("Done.")]) as llm:
        ...  # point a client at llm.api_base; afterwards look at llm.requests
"""

import ast
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from threaded_http import Handler, HttpServer

GREETING = "Answer with the word ready."

Step = Mapping[str, Any]
"""One answer: ``text`` or ``calls``, perhaps with ``reasoning_content``, ``finish_reason``, ``usage``, ``model``,
``delay``; or ``status`` and ``headers``.
"""

Script = Iterable[Step] | Callable[[dict[str, Any]], Step]
"""The answers in order, or a function from the request's JSON to its answer."""


def say(text: str, **more: Any) -> Step:
    return {"text": text, **more}


def call(name: str, arguments: Mapping[str, Any] | str, **more: Any) -> Step:
    """An answer that is one tool call. Arguments given as text are sent as they are, readable or not."""
    return {"calls": [{"name": name, "arguments": arguments}], **more}


def status(code: int, **headers: str) -> Step:
    return {"status": code, "headers": {name.replace("_", "-"): value for name, value in headers.items()}}


READY = say("ready")


def judge(met: bool = True) -> Script:
    """A judge of tau2's that says the same of each assertion."""

    def script(request: dict[str, Any]) -> Step:
        listed = request["messages"][-1]["content"].partition("expectedOutcomes:")[2]
        outcomes = ast.literal_eval(listed.strip())
        results = [{"expectedOutcome": each, "reasoning": "scripted", "metExpectation": met} for each in outcomes]
        return say(json.dumps({"results": results}))

    return script


class FakeLLM(HttpServer):
    """The server; starts when made (or entered) and ends with :meth:`close`.

    :param greets: whether what a run asks before its first trial is answered beside the script, and not recorded.
    """

    def __init__(self, script: Script, port: int = 0, *, greets: bool = True) -> None:
        self.greets = greets
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.answers: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._script = script if callable(script) else None
        self._steps = iter(() if callable(script) else script)
        super().__init__(_handler(self), port)

    @property
    def api_base(self) -> str:
        return f"{self.url}/v1"

    @property
    def exchanges(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Requests and their answers; for one client after another."""
        return list(zip(self.requests, self.answers, strict=True))

    def next_step(self, request: dict[str, Any], headers: dict[str, str]) -> Step:
        if self.greets and [one["content"] for one in request["messages"][-1:]] == [GREETING]:
            return READY
        with self._lock:
            self.requests.append(request)
            self.headers.append(headers)
            if self._script is not None:
                return self._script(request)
            return next(self._steps, {"status": 500, "message": "the script of the fake LLM is at its end"})


def completion(request: Mapping[str, Any], step: Step) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": step.get("text")}
    if step.get("calls"):
        message["tool_calls"] = [_tool_call(made, index) for index, made in enumerate(step["calls"])]
    if "reasoning_content" in step:
        message["reasoning_content"] = step["reasoning_content"]
    ended = step.get("finish_reason") or ("tool_calls" if step.get("calls") else "stop")
    usage = {"prompt_tokens": 100, "completion_tokens": 10, **step.get("usage", {})}
    usage["total_tokens"] = usage["prompt_tokens"] + usage["completion_tokens"]
    return {
        "id": "chatcmpl-fake",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": step.get("model") or request.get("model", "fake"),
        "choices": [{"index": 0, "message": message, "finish_reason": ended}],
        "usage": usage,
    }


def _tool_call(made: Mapping[str, Any], index: int) -> dict[str, Any]:
    arguments = made["arguments"] if isinstance(made["arguments"], str) else json.dumps(made["arguments"])
    identifier = made.get("id") or f"fake_{time.monotonic_ns()}_{index}"
    return {"id": identifier, "type": "function", "function": {"name": made["name"], "arguments": arguments}}


def _handler(llm: FakeLLM) -> type[Handler]:
    class Completions(Handler):
        def do_POST(self) -> None:
            request = json.loads(self.body())
            step = llm.next_step(request, {name.lower(): value for name, value in self.headers.items()})
            time.sleep(step.get("delay", 0.0))
            code = int(step.get("status", 200))
            error = {
                "error": {"message": step.get("message", f"scripted {code}"), "type": "scripted", "code": str(code)}
            }
            data = completion(request, step) if code == 200 else error
            if step != READY:
                llm.answers.append(data)
            self.answer(code, json.dumps(data).encode(), headers=step.get("headers"))

    return Completions
