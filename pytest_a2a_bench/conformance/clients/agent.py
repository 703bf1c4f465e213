"""A correct agent whose tasks are situations that a client must get right: its answers, in the form of 1.0 (pure)."""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pytest_a2a_bench.a2a.bodies import as_object
from pytest_a2a_bench.a2a.codec import TERMINAL, InMessage, read_event
from pytest_a2a_bench.conformance import data
from pytest_a2a_bench.conformance.finding import Exchange
from pytest_a2a_bench.conformance.protocol.operations import CAPABILITIES, SENDING
from pytest_a2a_bench.conformance.protocol.payloads import PUSH_MEMBERS, push_configs, task_id_in
from pytest_a2a_bench.conformance.variants import enum_of
from pytest_a2a_bench.errors import ProtocolError

_DATA = data.load("situations.json")
SITUATIONS: Mapping[str, str] = _DATA["situations"]
"""Word in a task's text -> the situation; new conversations without such a word get them in this order."""

CARDS: Mapping[str, str] = _DATA["cards"]
"""Segment of the URL before the card's path -> the peculiarity of the card."""

TENANT = "acme"
EXTENSION = "https://example.org/extensions/required/v1"
_BUSY = {"retry-429": 429, "503": 503}
_FINISHED = "finished"
WRITINGS = ("sse-comments", "sse-crlf", "sse-cr", "sse-multiline")
"""Situations that are ``stream`` in another writing."""
_ASKS = {"input", "stream", "unknown-fields", *WRITINGS}
OF_ONE_TASK = ("GetTask", "CancelTask", "SubscribeToTask")
"""Operations whose parameter ``id`` names a task."""


@dataclass(eq=False)
class Task:
    """A task of the agent.

    :ivar code: the text that the agent asks for, which shows that a message answers the question.
    :ivar left: how many more questions about it are answered with ``working``.
    :ivar has_shown_its_end: whether the client could read that it has ended.
    :ivar since: state -> the moment at which it was reached.
    """

    situation: str
    context: str
    state: str = "working"
    id: str = field(default_factory=lambda: f"task-{uuid.uuid4()}")
    code: str = field(default_factory=lambda: f"K-{uuid.uuid4().hex[:8]}")
    left: int = 2
    configs: list[dict[str, Any]] = field(default_factory=list)
    has_shown_its_end: bool = False
    since: dict[str, str] = field(default_factory=dict)

    def snapshot(self) -> dict[str, Any]:
        """Return it as the protocol has it."""
        found: dict[str, Any] = {"id": self.id, "contextId": self.context, "status": self.status()}
        if self.state == "completed":
            found["artifacts"] = [self.artifact()]
        return found

    def status(self) -> dict[str, Any]:
        """Return its status, with the question where it has one."""
        self.has_shown_its_end |= self.state in TERMINAL
        # The moment at which it was first seen in this state.
        moment = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        status: dict[str, Any] = {"state": enum_of(self.state), "timestamp": self.since.setdefault(self.state, moment)}
        if self.state == "input-required":
            text = f"Please answer with the code {self.code}."
            about = {"contextId": self.context, "taskId": self.id}
            parts = [{"text": text}]
            status["message"] = {"messageId": f"asks-{self.id}", "role": "ROLE_AGENT", "parts": parts, **about}
        return status

    def artifact(self) -> dict[str, Any]:
        """Return its result."""
        return {"artifactId": f"result-{self.id}", "parts": [{"text": f"The situation {self.situation} is over."}]}

    def update(self) -> dict[str, Any]:
        """Return the event with its status."""
        return {"statusUpdate": {"taskId": self.id, "contextId": self.context, "status": self.status()}}

    def end(self) -> tuple[dict[str, Any], ...]:
        """Complete it, and return the events that bring its result."""
        output = {"taskId": self.id, "contextId": self.context, "artifact": self.artifact(), "lastChunk": True}
        self.state = "completed"
        return {"artifactUpdate": output}, self.update()


@dataclass(eq=False)
class Call:
    """One request of the client, and the agent's reading of it.

    :param operation: its name in 1.0; empty where the request is none.
    :param params: its parameters; ``headers`` have names in lower case.
    :param options: segments of the card's URL.
    :param at: ``time.monotonic()`` when it was there as a whole.
    :param query: of its URL; ``body`` what it has in it, where that is a JSON object.
    :ivar situation: of the task that it is about, or that refused it.
    :ivar outcome: ``answered``, the name of the error that it was refused with, or the situation that refused it.
    :ivar task: the task that it is about, ``known`` whether the client named it or its context.
    :ivar repeats: the earlier call whose message this is again.
    :ivar forgot: the task whose question it answers without naming the task.
    :ivar is_late: whether it is a message to a task that has ended.
    :ivar wrong: the request line of a request for no operation; ``asked_to_wait`` the seconds of Retry-After.
    :ivar last_card: the options of the card that was fetched last before it.
    """

    binding: str
    version: str
    operation: str
    params: Mapping[str, Any]
    headers: Mapping[str, str]
    exchange: Exchange
    options: tuple[str, ...] = ()
    at: float = 0.0
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)
    situation: str = ""
    outcome: str = "answered"
    task: Task | None = None
    known: bool = False
    repeats: Call | None = None
    forgot: Task | None = None
    is_late: bool = False
    wrong: str = ""
    asked_to_wait: int = 0
    last_card: tuple[str, ...] = ()

    @property
    def place(self) -> tuple[str, str, tuple[str, ...]]:
        """Version, binding and options: the interface of a card, from which the client cannot see another's tasks."""
        return self.version, self.binding, self.options

    @property
    def card(self) -> tuple[str, ...]:
        """The options of its card; gRPC's requests do not say which that is, and the last that was fetched counts."""
        return self.last_card if self.binding == "GRPC" else self.options

    @property
    def message(self) -> Mapping[str, Any]:
        """The message that is sent."""
        read = as_object(self.params.get("message"))
        # Readers of protobuf's JSON leave out a role that they do not know.
        return {**read, **{k: v for k, v in self.spelled.items() if k == "role" and k not in read}}

    @property
    def spelled(self) -> Mapping[str, Any]:
        """The message that is sent, with the names that the client gave its members."""
        inside = self._given or self.params
        return as_object(inside.get("message") or inside.get("request"))

    @property
    def old_push(self) -> str:
        """The member of 0.3 by which a message of 1.0 brings a push configuration; empty for none."""
        configuration = as_object(self._given.get("configuration")) if self.version == "1.0" else {}
        return next((name for name in PUSH_MEMBERS[1:] if configuration.get(name)), "")

    @property
    def _given(self) -> Mapping[str, Any]:
        return as_object(self.body.get("params")) or self.body

    @property
    def read(self) -> InMessage:
        """The message that is sent, read."""
        form: Any = "1.0" if self.version == "1.0" else "0.3" if self.binding == "JSONRPC" else "0.3-proto"
        try:
            found = read_event({"kind": "message", **as_object(self.params.get("message"))}, form)
        except ProtocolError:
            return InMessage()
        return found if isinstance(found, InMessage) else InMessage()

    @property
    def text(self) -> str:
        """The text of the message that is sent."""
        return " ".join(part.text for part in self.read.parts if part.text)

    @property
    def task_id(self) -> str:
        """The task that is named by an operation other than sending."""
        params = self.params
        if self.binding == "JSONRPC" and self.operation in OF_ONE_TASK:
            return str(params.get("id") or "")
        name = str(params.get("id") or params.get("name") or "")
        return (task_id_in(params) or name).removeprefix("tasks/").partition("/")[0]

    @property
    def named_extensions(self) -> str:
        """The extensions that the client declares."""
        return self.headers.get("a2a-extensions", "") + self.headers.get("x-a2a-extensions", "")

    @property
    def waits(self) -> bool:
        """Whether the client asks the agent to answer when the task is done."""
        configuration = as_object(self.params.get("configuration"))
        if self.version == "1.0":
            return not configuration.get("returnImmediately")
        return configuration.get("blocking") is True


class Answer(NamedTuple):
    """An answer of the agent, before it is spelled for a binding.

    :param kind: of ``result``: ``event``, ``task``, ``tasks``, ``push``, ``pushes`` or ``empty``.
    :param error: a name of :data:`~.wire.reply.ERRORS`; ``status`` and ``headers`` an answer of HTTP's own.
    :param cut: whether the connection is closed after the events, or without any answer.
    :param situation: of the task, which may say how the answer is written.
    """

    kind: str = "event"
    result: Any = None
    events: tuple[dict[str, Any], ...] | None = None
    error: str = ""
    message: str = ""
    status: int = 0
    headers: Mapping[str, str] = {}
    cut: bool = False
    situation: str = ""


class Refusal(Exception):
    """An answer that is an error."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.error or answer.status)
        self.answer = answer


def _must(is_right: object, error: str, message: str) -> None:
    """Answer with an error of the protocol unless a condition is met."""
    if not is_right:
        raise Refusal(Answer(error=error, message=message))


class Agent:
    """Answers calls. Nothing here waits: a task goes on when the client asks about it.

    :ivar elsewhere: the base URL of another origin.
    :ivar moved: the options of the cards whose interfaces are elsewhere now.
    :ivar to_notify: the tasks whose webhooks are to be notified.
    """

    def __init__(self, retry_after: int = 2) -> None:
        self.retry_after, self.elsewhere = retry_after, ""
        self.calls: list[Call] = []
        self.moved: set[tuple[str, ...]] = set()
        self.to_notify: list[Task] = []
        self._tasks: dict[str, Task] = {}
        self._order = itertools.cycle(SITUATIONS)
        self._refused: dict[tuple[Any, ...], Call] = {}

    def answer(self, call: Call) -> Answer:
        """Return the answer to a call, and remember the call."""
        self.calls.append(call)
        try:
            return self._answer(call)
        except Refusal as refusal:
            call.outcome = refusal.answer.error or call.situation
            return refusal.answer

    def _answer(self, call: Call) -> Answer:
        name = call.operation
        _must(name, "MethodNotFoundError", call.wrong)
        if call.options in self.moved:
            call.situation = "card-change"
            raise Refusal(Answer(status=404))
        if "auth" in call.options and not call.headers.get("authorization"):
            raise Refusal(Answer(status=401, headers={"WWW-Authenticate": "Bearer"}))
        is_declared = "extension" not in call.options or EXTENSION in call.named_extensions
        _must(is_declared, "ExtensionSupportRequiredError", f"{EXTENSION} is required")
        needs = CAPABILITIES.get(name, "")
        is_able = needs != "extendedAgentCard" and not (needs and "plain" in call.options)
        _must(is_able, "UnsupportedOperationError", "the card does not declare it")
        if name in SENDING:
            found = self._send(call)
            if "card-change" in call.options and "moved" not in call.options:
                self.moved.add(call.options)
            return found
        if name == "ListTasks":
            asked = call.params.get("contextId")
            tasks = [t.snapshot() for t in self._tasks.values() if asked in (None, "", t.context)]
            return Answer("tasks", {"tasks": tasks, "nextPageToken": "", "pageSize": 100, "totalSize": len(tasks)})
        return self._about(call, self._find(call, call.task_id))

    def _find(self, call: Call, id: str) -> Task:
        """Return the task that a call names."""
        call.task = self._tasks.get(id)
        if call.task is None:
            # Which task is meant may be in another member.
            call.task = self._tasks.get(task_id_in(call.params) or "")
            raise Refusal(Answer(error="TaskNotFoundError", message=f"there is no task {id!r}"))
        call.situation, call.known = call.task.situation, True
        return call.task

    def _about(self, call: Call, task: Task) -> Answer:
        """Answer a request about a task."""
        if "Push" in call.operation:
            return self._push(call, task)
        has_ended = task.state in TERMINAL
        if call.operation == "SubscribeToTask":
            _must(not has_ended, "UnsupportedOperationError", "the task has ended")
            first = {"task": task.snapshot()}
            return self._stream(task, (first, *(task.end() if task.state == "working" else ())))
        if call.operation == "CancelTask":
            _must(not has_ended, "TaskNotCancelableError", "the task has ended")
            task.state = "canceled"
        elif task.state == "working":
            task.left -= 1
            task.state = "working" if task.left > 0 else "completed"
        return Answer("task", task.snapshot(), situation=task.situation)

    def _push(self, call: Call, task: Task) -> Answer:
        if call.operation.startswith("Create"):
            inside = push_configs(as_object(call.params.get("config")) or call.params)
            config = self._configure(task, inside[0] if inside else {})
            _must(config.get("url"), "InvalidParamsError", "the configuration has no url")
            return Answer("push", config)
        if call.operation.startswith("List"):
            return Answer("pushes", {"configs": task.configs, "nextPageToken": ""})
        if call.operation.startswith("Delete"):
            task.configs.clear()
            return Answer("empty")
        _must(task.configs, "TaskNotFoundError", "there is no such configuration")
        return Answer("push", task.configs[-1])

    def _configure(self, task: Task, given: Mapping[str, Any]) -> dict[str, Any]:
        """Add a push configuration to a task, in the form of 1.0."""
        config: dict[str, Any] = {k: v for k, v in given.items() if k in ("url", "token", "authentication") and v}
        config |= {"id": given.get("id") or f"config-{len(task.configs) + 1}", "taskId": task.id}
        auth = as_object(config.get("authentication"))
        if schemes := auth.get("schemes"):
            config["authentication"] = {"scheme": schemes[0], "credentials": auth.get("credentials", "")}
        if config.get("url"):
            task.configs.append(config)
            self.to_notify.append(task)
        return config

    # -- messages --

    def _send(self, call: Call) -> Answer:
        message, id = call.read, str(call.message.get("messageId") or "")
        _must(message.parts and id, "InvalidParamsError", "the message has no messageId or no part")
        if message.task_id:
            return self._continue(call, self._find(call, message.task_id))
        context = message.context_id or ""
        call.known = any(task.context == context for task in self._tasks.values())
        waiting = [t for t in self._tasks.values() if t.state == "input-required"]
        answered = [t for t in waiting if t.code in call.text] or [t for t in waiting if t.context == context]
        call.forgot = answered[0] if answered else None
        same_id, same_text = (*call.place, "id", id), (*call.place, "text", call.text)
        call.repeats = self._refused.get(same_id) or self._refused.get(same_text)
        call.situation = self._situation(call)
        if (refusal := self._refuse(call)) is not None:
            self._refused[same_id] = self._refused[same_text] = call
            raise Refusal(refusal)
        self._refused.pop(same_text, None)
        call.task = task = Task(call.situation, context or f"context-{uuid.uuid4()}")
        self._tasks[task.id] = task
        given = as_object(call.params.get("configuration"))
        for config in (as_object(given[name]) for name in PUSH_MEMBERS if given.get(name)):
            self._configure(task, config)
        return self._begin(call, task)

    def _situation(self, call: Call) -> str:
        if call.repeats is not None:
            return call.repeats.situation
        words = set(re.findall(r"[a-z0-9-]+", call.text.lower()))
        named = [name for name in sorted(SITUATIONS, key=len, reverse=True) if name in words]
        return named[0] if named else _FINISHED if call.known or call.forgot else next(self._order)

    def _refuse(self, call: Call) -> Answer | None:
        """Return the refusal of a situation; None where the call is answered."""
        again, situation, token = call.repeats, call.situation, call.headers.get("authorization")
        if situation == "expired-token":
            is_same = again is None or again.headers.get("authorization") == token
            challenge = 'Bearer error="invalid_token", error_description="the token has expired"'
            return Answer(status=401, headers={"WWW-Authenticate": challenge}) if token and is_same else None
        if again is not None:
            return None
        if situation == "drop":
            return Answer(cut=True)
        if situation == "redirect" and call.binding != "GRPC":
            return Answer(status=307, headers={"Location": f"{self.elsewhere}/"})
        if situation not in _BUSY:
            return None
        call.asked_to_wait = self.retry_after
        return Answer(status=_BUSY[situation], headers={"Retry-After": str(self.retry_after)})

    def _continue(self, call: Call, task: Task) -> Answer:
        """Answer a message that names a task."""
        call.is_late = task.has_shown_its_end
        late = "UnsupportedOperationError" if call.version == "1.0" else "InvalidParamsError"
        _must(task.state not in TERMINAL, late, "the task has ended")
        is_same = call.read.context_id in (None, task.context)
        _must(is_same, "InvalidParamsError", "the contextId is not the task's")
        task.state = "working"
        events = ({"task": task.snapshot()}, *task.end())
        return self._stream(task, events) if call.operation == SENDING[1] else self._whole(task)

    def _begin(self, call: Call, task: Task) -> Answer:
        """Answer the message that began a task."""
        first, asks = {"task": task.snapshot()}, task.situation in _ASKS
        if call.operation != SENDING[1]:
            is_done = call.waits or task.situation == _FINISHED
            task.state = "input-required" if asks else "completed" if is_done else task.state
            return self._whole(task)
        if task.situation == "reconnect":
            return Answer(events=(first, task.update()), cut=True)
        if not asks:
            return self._stream(task, (first, *task.end()))
        middle = task.update()
        task.state = "input-required"
        return self._stream(task, (first, middle, task.update()))

    @staticmethod
    def _stream(task: Task, events: tuple[dict[str, Any], ...]) -> Answer:
        return Answer(events=events, situation=task.situation)

    @staticmethod
    def _whole(task: Task) -> Answer:
        return Answer(result={"task": task.snapshot()}, situation=task.situation)
