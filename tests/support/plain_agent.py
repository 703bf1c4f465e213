"""A second correct agent, written from the specification alone: raw JSON over Starlette, no protobuf, no SDK.

Whoever judges it was built by another hand. It speaks A2A 1.0 on JSON-RPC and HTTP+JSON, or 0.3 on JSON-RPC. Where a
fault is named (``plain_faults``), it breaks one rule and keeps all others: `Plain.bad` asks whether it is that one, and
the tables of ``plain_faults`` rewrite what leaves the agent.

What it does follows from a word in the first text: ``slow``, ``input``, ``auth``, ``reject``, ``fail``, ``crash``,
``chunks``, ``file``, ``url``, ``data``, ``message``; anything else is a task that completes at once.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import copy
import json
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import httpx

Json = dict[str, Any]
DONE = {"TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"}
RESTING = DONE | {"TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED"}
STATES = RESTING | {"TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"}
KINDS = ("text", "raw", "url", "data")
MODES = ("text/plain", "application/json", "image/png")
CODES = {
    "TASK_NOT_FOUND": (-32001, 404, "NOT_FOUND"),
    "TASK_NOT_CANCELABLE": (-32002, 400, "FAILED_PRECONDITION"),
    "PUSH_NOTIFICATION_NOT_SUPPORTED": (-32003, 400, "FAILED_PRECONDITION"),
    "UNSUPPORTED_OPERATION": (-32004, 400, "FAILED_PRECONDITION"),
    "CONTENT_TYPE_NOT_SUPPORTED": (-32005, 400, "INVALID_ARGUMENT"),
    "EXTENDED_AGENT_CARD_NOT_CONFIGURED": (-32007, 400, "FAILED_PRECONDITION"),
    "EXTENSION_SUPPORT_REQUIRED": (-32008, 400, "FAILED_PRECONDITION"),
    "VERSION_NOT_SUPPORTED": (-32009, 400, "FAILED_PRECONDITION"),
    "parse": (-32700, 400, "INVALID_ARGUMENT"),
    "request": (-32600, 400, "INVALID_ARGUMENT"),
    "method": (-32601, 404, "NOT_FOUND"),
    "params": (-32602, 400, "INVALID_ARGUMENT"),
    "internal": (-32603, 500, "INTERNAL"),
}
CALLERS = {"Bearer anna-secret-token": "anna", "Bearer otto-secret-token": "otto"}
EXTENSION = "https://plain.example/extensions/quiet/v1"


class Trouble(Exception):
    """An error that the protocol names.

    :param kind: a key of `CODES`.
    :param where: the field that is wrong, for a validation error.
    """

    def __init__(self, kind: str, words: str, where: str = "") -> None:
        super().__init__(words)
        self.kind, self.words, self.where = kind, words, where


@dataclass(eq=False)
class Job:
    """One task, with everything that ever happened to it in ``log``."""

    key: str
    context: str
    owner: str
    tenant: str
    state: str = "TASK_STATE_SUBMITTED"
    said: Json | None = None
    stamp: str = ""
    artifacts: list[Json] = field(default_factory=list)
    history: list[Json] = field(default_factory=list)
    log: list[Json] = field(default_factory=list)
    pings: list[asyncio.Event] = field(default_factory=list)
    hooks: dict[str, Json] = field(default_factory=dict)
    outbox: asyncio.Queue[tuple[Json, Json] | None] = field(default_factory=asyncio.Queue)
    wants_text: bool = True
    cut: bool = False
    work: asyncio.Task[None] | None = None
    post: asyncio.Task[None] | None = None


def now() -> str:
    """Return the time as the specification writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def need(fine: bool, where: str, words: str) -> None:
    """Refuse parameters that are wrong."""
    if not fine:
        raise Trouble("params", words, where)


class Plain:
    """The agent behind every binding.

    :param profile: what it declares: ``full``, ``bare`` (no capability), ``guarded`` (bearer tokens, extended card),
        ``strict`` (a required extension), ``tenants`` (two), ``old`` (0.3).
    :param fault: the name of the one rule that it breaks, or of a liberty that the rules leave it.
    """

    def __init__(self, profile: str = "full", fault: str = "") -> None:
        self.profile, self.fault = profile, fault
        self.jobs: dict[str, Job] = {}
        self.able = profile != "bare"
        self.guarded = profile == "guarded"
        self.pages: dict[str, str] = {}
        self.crowd = 0

    def bad(self, *names: str) -> bool:
        """Say whether the rule to break is one of these."""
        return self.fault in names

    # -- what a caller may see -----------------------------------------------------------------------------------

    def find(self, key: Any, who: str, tenant: str, op: str) -> Job:
        """Return a task of this caller."""
        need((isinstance(key, str) and key != "") or self.bad(f"empty id {op}"), "id", "a task id is needed")
        job = self.jobs.get(key)
        if job is None and self.bad(f"prefix {op}"):
            job = next((j for j in self.jobs.values() if key and j.key.startswith(key[:8])), None)
        foreign = job is not None and (job.owner != who or job.tenant != tenant)
        if foreign and (self.bad(f"any caller {op}") or (self.bad("any tenant") and job.owner == who)):  # type: ignore[union-attr]
            foreign = False
        if job is None or foreign:
            if foreign and self.bad("foreign is told"):
                raise Trouble("UNSUPPORTED_OPERATION", "this task belongs to somebody else")
            if self.bad(f"unknown {op}"):
                raise Trouble("UNSUPPORTED_OPERATION", f"no task {key}")
            raise Trouble("TASK_NOT_FOUND", f"There is no task {key!r}.")
        return job

    def picture(self, job: Job, history: Any = None, artifacts: bool = True, op: str = "") -> Json:
        """Return a task as JSON."""
        status: Json = {"state": job.state, "timestamp": job.stamp}
        if job.said:
            status["message"] = job.said
        shown: Json = {"id": job.key, "contextId": job.context, "status": status}
        if job.artifacts and artifacts:
            shown["artifacts"] = job.artifacts
        past = job.history
        if history is not None and not self.bad(f"history uncapped {op}"):
            past = past[:history] if self.bad(f"oldest history {op}") else past[len(past) - min(history, len(past)) :]
        if history == 0 and self.bad(f"history zero is all {op}"):
            past = job.history
        if past:
            shown["history"] = past
        return copy.deepcopy(shown)

    # -- what happens to a task ----------------------------------------------------------------------------------

    def happen(self, job: Job, event: Json) -> None:
        """Keep an event, and tell who listens."""
        job.log.append(event)
        for ping in job.pings:
            ping.set()
        for hook in job.hooks.values():
            told = {"statusUpdate": {**event.get("statusUpdate", {})}, "task": self.picture(job)}
            job.outbox.put_nowait((hook, told if self.profile == "old" else event))

    def move(self, job: Job, state: str, words: str = "") -> None:
        """Change a task's state."""
        if job.state in DONE and not self.bad("life after death"):
            return
        job.state, job.stamp = state, now()
        job.said = self.message(job, words) if words else None
        status = self.picture(job)["status"]
        self.happen(job, {"statusUpdate": {"taskId": job.key, "contextId": job.context, "status": status}})

    def give(self, job: Job, parts: list[Json], **more: Any) -> None:
        """Add an artifact, or a chunk of one."""
        key = more.pop("key", "answer")
        held = next((a for a in job.artifacts if a["artifactId"] == key), None)
        if held is None or not more.get("append"):
            if self.bad("same artifact id twice"):
                job.artifacts.append({"artifactId": key, "parts": list(parts)})
            job.artifacts.append({"artifactId": key, "name": "answer", "parts": list(parts)})
        else:
            held["parts"] += parts if not self.bad("stored chunks lost") else []
        update: Json = {"taskId": job.key, "contextId": job.context}
        update["artifact"] = {"artifactId": key, "name": "answer", "parts": parts}
        if "append" in more and (self.bad("never appends") or self.bad("first chunk appends")):
            more["append"] = self.bad("first chunk appends")
        self.happen(job, {"artifactUpdate": {**update, **more}})

    def message(self, job: Job, words: str) -> Json:
        """Say something as the agent."""
        said: Json = {"messageId": uuid.uuid4().hex, "role": "ROLE_AGENT", "parts": [{"text": words}]}
        return {**said, "contextId": job.context, "taskId": job.key}

    async def run(self, job: Job, words: str) -> None:
        """Work on a task."""
        pause = 0.01 if "slow" not in words else 0.6
        self.move(job, "TASK_STATE_WORKING", "I am at it." if "slow" in words else "")
        await asyncio.sleep(pause)
        if "slow" in words:
            self.move(job, "TASK_STATE_WORKING", "Still at it.")
            await asyncio.sleep(pause)
        if "input_answer" not in words and "input" in words:
            return self.move(job, "TASK_STATE_INPUT_REQUIRED", "Where to?")
        if "auth" in words:
            return self.move(
                job, "TASK_STATE_AUTH_REQUIRED", "" if self.bad("auth without words") else "Please log in."
            )
        for word in ("reject", "fail", "crash"):
            if word in words:
                state = "REJECTED" if word == "reject" else "FAILED"
                trace = 'Traceback (most recent call last):\n  File "/srv/agent.py", line 3, in run\nKeyError: 1'
                text = trace if self.bad("trace told") else f"It cannot be done ({word})."
                if word == "crash" and self.bad("crash completes nothing"):
                    return None
                return self.move(job, f"TASK_STATE_{state}", text)
        if "chunks" in words:
            for place, chunk in enumerate(("one ", "two ", "three")):
                last = place == 2 and not self.bad("no last chunk")
                self.give(job, [{"text": chunk}], key="chunks", append=place > 0, lastChunk=last)
        else:
            self.give(job, self.answer(words if job.wants_text else f"{words} data"))
        if self.bad("artifact after end"):
            self.move(job, "TASK_STATE_COMPLETED")
            self.give(job, [{"text": "and one thing more"}], key="late")
        else:
            self.move(job, "TASK_STATE_COMPLETED")
        if self.bad("second end"):
            self.happen(job, copy.deepcopy(job.log[-1]))
        return None

    def answer(self, words: str) -> list[Json]:
        """Return the parts of an answer."""
        if "file" in words:
            data = base64.b64encode(b"\x89PNG not really").decode()
            raw = "this is no base64!" if self.bad("raw is no base64") else data
            return [{"raw": raw, "filename": "cat.png", "mediaType": "image/png"}]
        if "url" in words:
            return [{"url": "https://plain.example/cat.png", "filename": "cat.png", "mediaType": "image/png"}]
        if "data" in words:
            return [{"data": {"answer": [42, None, "x"]}, "mediaType": "application/json"}]
        return [{"text": "Here you are.", "mediaType": "text/plain"}]

    # -- operations ----------------------------------------------------------------------------------------------

    def check(self, call: Json, who: str) -> None:
        """Refuse a message that is not valid."""
        said = call.get("message")
        slack = self.fault.removeprefix("takes ") if self.fault.startswith("takes ") else ""
        if slack != "no message":
            need(isinstance(said, dict), "message", "a message is needed")
        if not isinstance(said, dict):
            return
        if slack != "no messageId":
            need(isinstance(said.get("messageId"), str) and said["messageId"] != "", "message.messageId", "is needed")
        if "role" in said or slack != "no role":
            fine = said.get("role") in ("ROLE_USER", "ROLE_AGENT")
            need(fine or (slack == "any role" and "role" in said), "message.role", "no such role")
        parts = said.get("parts")
        if parts is None and slack == "no parts":
            return
        if slack == "parts of any type" and parts is not None and not isinstance(parts, list):
            return
        need(isinstance(parts, list), "message.parts", "a list of parts is needed")
        need(bool(parts) or slack == "empty parts", "message.parts", "at least one part is needed")
        for part in parts or ():
            need(isinstance(part, dict), "message.parts", "a part is an object")
            held = [kind for kind in KINDS if kind in part]
            if not ((slack == "empty part" and not held) or (slack == "two contents" and len(held) > 1)):
                need(len(held) == 1, "message.parts", "a part has exactly one content")
            for kind in ("text", "url", "raw"):
                need(kind not in part or isinstance(part[kind], str), f"message.parts.{kind}", "is a string")
            if "raw" in part and slack != "raw that is no base64":
                try:
                    base64.b64decode(part["raw"], validate=True)
                except ValueError:
                    need(False, "message.parts.raw", "is no base64")
            for number, value in enumerate(({"a": 1}, [1], "x", 1, True, None)):
                same = "data" in part and type(part["data"]) is type(value)
                if same and self.bad(f"refuses data {number}"):
                    need(False, "message.parts.data", "no data of this kind, please")
            if part.get("mediaType", "text/plain").partition(";")[0] not in MODES and not self.bad("any media type"):
                raise Trouble("CONTENT_TYPE_NOT_SUPPORTED", f"{part['mediaType']} is not understood here")
        limit = (call.get("configuration") or {}).get("historyLength")
        if slack != "negative historyLength":
            need(limit is None or (type(limit) is int and limit >= 0), "configuration.historyLength", "is negative")
        if self.bad("unknown fields refused"):
            need(not set(call) - {"message", "configuration", "metadata", "tenant"}, "", "unknown member")

    async def begin(self, call: Json, who: str, tenant: str, op: str) -> Job | Json:
        """Take a message, and return its task under way, or the message that answers it."""
        self.check(call, who)
        said: Json = copy.deepcopy(call.get("message") or {"messageId": "?", "role": "ROLE_USER", "parts": []})
        texts = said.get("parts")
        words = " ".join(p.get("text", "") for p in texts if isinstance(p, dict)) if isinstance(texts, list) else ""
        if said.get("referenceTaskIds") and self.bad("references refused"):
            need(False, "message.referenceTaskIds", "not here")
        if said.get("taskId"):
            job = self.find(said["taskId"], who, tenant, op)
            if job.state in DONE and not self.bad(f"terminal goes on {op}"):
                if self.bad(f"terminal is unknown {op}"):
                    raise Trouble("TASK_NOT_FOUND", "it has ended")
                raise Trouble("UNSUPPORTED_OPERATION", f"Task {job.key} has ended.")
            if said.get("contextId") and said["contextId"] != job.context and not self.bad("contexts mixed"):
                need(False, "message.contextId", "is not the context of this task")
            if job.state == "TASK_STATE_AUTH_REQUIRED" and self.bad("auth takes no message"):
                raise Trouble("UNSUPPORTED_OPERATION", "log in first")
            if self.bad("new task for an answer"):
                job = self.open(said, who, tenant)
            job.history.append({**said, "contextId": job.context, "taskId": job.key})
            self.hook(job, call)
            job.work = asyncio.create_task(self.run(job, f"input_answer {words}"))
            return job
        if "message" in words and "task" not in words:
            context = said.get("contextId") or uuid.uuid4().hex
            reply: Json = {"messageId": uuid.uuid4().hex, "role": "ROLE_AGENT", "parts": [{"text": "Hello."}]}
            return reply if self.bad("message without context") else {**reply, "contextId": context}
        if "crash" in words and self.bad("crash is plain"):
            raise RuntimeError("crash")
        job = self.open(said, who, tenant)
        job.history.append({**said, "contextId": job.context, "taskId": job.key})
        self.hook(job, call)
        job.work = asyncio.create_task(self.run(job, words))
        return job

    def open(self, said: Json, who: str, tenant: str) -> Job:
        """Make a task."""
        context = said.get("contextId") or uuid.uuid4().hex
        if self.bad("context replaced"):
            context = uuid.uuid4().hex
        if self.bad("one context for all") and not said.get("contextId"):
            context = "context"
        same = [j for j in self.jobs.values() if j.context == context]
        if self.bad("context is one task") and same and same[0].state in DONE:
            raise Trouble("UNSUPPORTED_OPERATION", "this context has ended")
        key = uuid.uuid4().hex
        if self.bad("ids repeat"):
            key = f"task-{len(self.jobs) // 2}"
        job = Job(key, context, who, tenant, stamp=now())
        self.jobs[key] = job
        return job

    def prefer(self, job: Job, call: Json) -> None:
        """Take in which media types are accepted."""
        modes = (call.get("configuration") or {}).get("acceptedOutputModes") or ["text/plain"]
        wants = "text/plain" in modes or "application/json" not in modes
        job.wants_text = wants or self.bad("output modes ignored")

    def hook(self, job: Job, call: Json) -> None:
        """Take the configuration that came with a message."""
        self.prefer(job, call)
        config = (call.get("configuration") or {}).get("taskPushNotificationConfig")
        if config and not self.bad("inline push ignored"):
            self.add_hook(job, config)

    async def settle(self, job: Job) -> None:
        """Wait until a task rests."""
        ping = asyncio.Event()
        job.pings.append(ping)
        work = job.work
        while not (job.state in RESTING and (work is None or work.done())):
            ping.clear()
            if work is not None:
                await asyncio.wait({work, asyncio.ensure_future(ping.wait())}, return_when=asyncio.FIRST_COMPLETED)
        job.pings.remove(ping)

    async def send(self, call: Json, who: str, tenant: str) -> Json:
        """SendMessage."""
        job = await self.begin(call, who, tenant, "send")
        if isinstance(job, dict):
            return {"message": job}
        chosen = call.get("configuration") or {}
        if not ((chosen.get("returnImmediately") and not self.bad("never at once")) or self.bad("always at once")):
            await self.settle(job)
        shown = self.picture(job, chosen.get("historyLength"), op="send")
        if self.bad("early without artifacts"):
            shown.pop("artifacts", None)
        if self.bad("early is lost") and chosen.get("returnImmediately"):
            del self.jobs[job.key]
        return {"task": shown}

    async def stream(self, call: Json, who: str, tenant: str) -> AsyncIterator[Json]:
        """SendStreamingMessage."""
        if not self.able and not self.bad("streams undeclared"):
            raise Trouble("UNSUPPORTED_OPERATION", "no streams here")
        job = await self.begin(call, who, tenant, "stream")
        if isinstance(job, dict):
            twice = self.bad("message stream goes on")

            async def once() -> AsyncIterator[Json]:
                yield {"message": job}
                if twice:
                    yield {"message": {**job, "messageId": "again"}}

            return once()
        return self.follow(job, "stream", (call.get("configuration") or {}).get("historyLength"))

    async def follow(self, job: Job, op: str, history: Any = None) -> AsyncIterator[Json]:
        """Yield the task, and then what happens to it until it rests."""
        ping = asyncio.Event()
        job.pings.append(ping)
        self.crowd += 1
        mine = self.crowd
        if self.bad("streams late") and op == "stream":
            await self.settle(job)
        first = self.picture(job, history, op=op)
        at = len(job.log)
        if op == "subscribe" and self.bad("subscribed task is stale"):
            first["status"] = {"state": "TASK_STATE_SUBMITTED", "timestamp": job.stamp}
        if self.bad(f"gap {op}"):
            at += 1
        try:
            if not self.bad(f"no first task {op}"):
                yield {"task": first}
            sent, asked = 0, False
            if op == "subscribe" and self.bad("replays"):
                at = 0
            while True:
                while at < len(job.log):
                    event = copy.deepcopy(job.log[at])
                    at += 1
                    sent += 1
                    if self.bad("later streams miss") and op == "subscribe" and "artifactUpdate" in event:
                        continue
                    if self.bad("task again") and sent == 1:
                        yield {"task": self.picture(job)}
                    yield event
                    if self.bad("stream ends early") and sent == 1:
                        return
                    state = event.get("statusUpdate", {}).get("status", {}).get("state")
                    ends = state in DONE or state == "TASK_STATE_INPUT_REQUIRED"
                    if self.bad("stream open at input") and state == "TASK_STATE_INPUT_REQUIRED":
                        ends = False
                    if self.bad("stream open after input"):
                        asked = asked or state == "TASK_STATE_INPUT_REQUIRED"
                        ends = ends and not asked
                    if self.bad(f"stream open at end {op}"):
                        ends = False
                    if ends and not self.bad("artifact after end") and not self.bad("second end"):
                        return
                stays = asked or self.bad(f"stream open at end {op}")
                if job.state in DONE and job.work and job.work.done() and not stays:
                    return
                ping.clear()
                if job.cut:
                    return
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(ping.wait(), 0.2)
        finally:
            job.pings.remove(ping)
            if self.bad("task dies with its stream") and job.work and mine:
                job.work.cancel()
            job.cut = self.bad("one leaves, all leave")

    async def get(self, call: Json, who: str, tenant: str) -> Json:
        """GetTask."""
        job = self.find(call.get("id"), who, tenant, "get")
        limit = call.get("historyLength")
        if not self.bad("get takes negative"):
            need(limit is None or (type(limit) is int and limit >= 0), "historyLength", "is negative")
        shown = self.picture(job, limit, op="get")
        if self.bad("get is wrapped"):
            return {"task": shown}
        if self.bad("get forgets artifacts"):
            shown.pop("artifacts", None)
        if self.bad("get differs each time"):
            shown["metadata"] = {"asked": uuid.uuid4().hex}
            shown["status"]["timestamp"] = now()
        return shown

    async def list(self, call: Json, who: str, tenant: str) -> Json:
        """ListTasks."""
        mine = [
            j for j in self.jobs.values() if j.tenant == tenant or self.bad("list any tenant", "list any tenant late")
        ]
        anybody = self.bad("list any caller") or (self.bad("list any caller unfiltered") and not call.get("contextId"))
        mine = [j for j in mine if j.owner == who or anybody]
        size, state, after = call.get("pageSize"), call.get("status"), call.get("statusTimestampAfter")
        if not (self.bad("any page size") or (self.bad("page size 0") and size == 0)):
            fine = size is None or (type(size) is int and 1 <= size <= (200 if self.bad("page size 101") else 100))
            need(fine, "pageSize", "is 1 to 100")
        if not self.bad("any status"):
            need(state in (None, "", "TASK_STATE_UNSPECIFIED") or state in STATES, "status", "no such state")
        limit = call.get("historyLength")
        need(limit is None or (type(limit) is int and limit >= 0), "historyLength", "is negative")
        if state in STATES and not self.bad("list ignores status"):
            mine = [j for j in mine if j.state == state]
        if call.get("contextId") and not self.bad("list ignores context"):
            wanted = call["contextId"]
            near = self.bad("context by prefix")
            mine = [j for j in mine if j.context == wanted or (near and j.context.startswith(wanted[:6]))]
        if after:
            need(
                isinstance(after, str) and re.match(r"\d{4}-\d\d-\d\dT", after) is not None, "statusTimestampAfter", "?"
            )
            stamp = datetime.fromisoformat(after.replace("Z", "+00:00")).astimezone(UTC)
            told = stamp.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
            if not self.bad("list ignores time"):
                mine = [j for j in mine if (j.stamp > told if self.bad("time is exclusive") else j.stamp >= told)]
        mine.sort(key=lambda j: (j.stamp, j.key), reverse=not self.bad("oldest first"))
        if self.bad("by creation"):
            mine = [j for j in reversed(self.jobs.values()) if j in mine]
        total, token = len(mine), call.get("pageToken")
        if self.bad("list any tenant late") and not token:
            # Section 10 leans on AIP-158: a page may be empty and yet not the last.
            self.pages["further"] = ""
            return {"tasks": [], "nextPageToken": "further", "pageSize": size or 50, "totalSize": total}
        if token:
            need(not self.bad("next page refused"), "pageToken", "no such page")
            if token not in self.pages and not self.bad("any page token"):
                need(False, "pageToken", "no such page")
            ids = [j.key for j in mine]
            at = ids.index(self.pages[token]) + 1 if self.pages.get(token) in ids else 0
            mine = mine[at - 1 if self.bad("pages overlap") else at + 1 if self.bad("pages skip") else at :]
        count = (size or (500 if self.bad("default page is big") else 50)) + (1 if self.bad("page too full") else 0)
        count = min(count, 2) if self.bad("pages of two", "next page refused") else count
        page, rest = mine[:count], mine[count:]
        following = ""
        if rest:
            following = base64.urlsafe_b64encode(page[-1].key.encode()).decode()
            self.pages[following] = page[-1].key
        wanted = call.get("includeArtifacts") is True and not self.bad("artifacts never listed")
        shown = [self.picture(j, limit, wanted or self.bad("artifacts always listed"), op="list") for j in page]
        if self.bad("total is the page"):
            total = len(page)
        return {"tasks": shown, "nextPageToken": following, "pageSize": size or 50, "totalSize": total}

    async def cancel(self, call: Json, who: str, tenant: str) -> Json:
        """CancelTask."""
        job = self.find(call.get("id"), who, tenant, "cancel")
        if job.state in DONE and not (self.bad("cancel anything") or self.bad("cancel revives")):
            raise Trouble("TASK_NOT_CANCELABLE", f"Task {job.key} has ended.")
        if self.bad("cancel revives"):
            job.state = "TASK_STATE_WORKING"
        if job.work and not self.bad("cancelled completes") and not self.bad("life after death"):
            job.work.cancel()
        before = self.picture(job)
        if self.bad("cancel is silent"):
            job.state, job.stamp = "TASK_STATE_CANCELED", now()
        else:
            self.move(job, "TASK_STATE_FAILED" if self.bad("cancel fails it") else "TASK_STATE_CANCELED")
        if self.bad("cancelled completes"):
            job.state = "TASK_STATE_WORKING"
            return {**before, "status": {"state": "TASK_STATE_CANCELED", "timestamp": now()}}
        if self.bad("forgets canceled"):
            del self.jobs[job.key]
        return before if self.bad("cancel shows before") else self.picture(job)

    async def subscribe(self, call: Json, who: str, tenant: str) -> AsyncIterator[Json]:
        """SubscribeToTask."""
        if not self.able and not self.bad("subscribes undeclared"):
            raise Trouble("UNSUPPORTED_OPERATION", "no streams here")
        job = self.find(call.get("id"), who, tenant, "subscribe")
        if job.state in DONE and not self.bad("subscribe to the dead"):
            raise Trouble("UNSUPPORTED_OPERATION", f"Task {job.key} has ended.")
        return self.follow(job, "subscribe")

    # -- push ----------------------------------------------------------------------------------------------------

    def add_hook(self, job: Job, config: Json) -> Json:
        """Keep a push configuration."""
        url = config.get("url")
        need((isinstance(url, str) and url != "") or self.bad("push without url"), "url", "is needed")
        inner = re.match(r"https?://(169\.254\.|\[?fe80|10\.|192\.168\.)", url or "")
        need(inner is None or self.bad("push anywhere"), "url", "must not be an inner address")
        kept = {k: v for k, v in config.items() if k in ("url", "token", "authentication")}
        kept = {**kept, "id": config.get("id") or uuid.uuid4().hex, "taskId": job.key}
        if self.bad("one push config only"):
            job.hooks.clear()
        job.hooks[kept["id"]] = kept
        if job.post is None:
            job.post = asyncio.create_task(self.deliver(job))
        return dict(kept)

    async def deliver(self, job: Job) -> None:
        """Send what happens to each webhook, in order."""
        lanes: dict[str, asyncio.Queue[Json]] = {}
        running: list[asyncio.Task[None]] = []
        try:
            while (item := await job.outbox.get()) is not None:
                hook, event = item
                if hook["id"] not in lanes:
                    lanes[hook["id"]] = asyncio.Queue()
                    running.append(asyncio.create_task(self.lane(hook, lanes[hook["id"]], job)))
                lanes[hook["id"]].put_nowait(event)
        finally:
            for lane in running:
                lane.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def lane(self, hook: Json, events: asyncio.Queue[Json], job: Job) -> None:
        """Send events to one webhook."""
        from plain_faults import rewritten
        from plain_http import downgraded

        held: list[Json] = []
        state: Any = ""
        async with httpx.AsyncClient(timeout=5, trust_env=False) as client:
            while True:
                late = bool(held) and state in DONE
                event = held.pop() if late else await events.get()
                state = event.get("statusUpdate", {}).get("status", {}).get("state")
                if self.bad("end is not pushed") and state in DONE:
                    continue
                if self.bad("nothing is pushed") or (
                    self.bad("deleted is pushed") is False and hook["id"] not in job.hooks
                ):
                    continue
                headers = {"Content-Type": "application/a2a+json"}
                auth = hook.get("authentication") or {}
                if self.bad("first credentials for all"):
                    auth = next(iter(job.hooks.values())).get("authentication") or {}
                if auth and not self.bad("push without credentials"):
                    scheme = auth.get("scheme", "")
                    if not (self.bad("scheme by case") and scheme != "Bearer"):
                        headers["Authorization"] = f"{scheme} {auth.get('credentials', '')}"
                if hook.get("token"):
                    headers["X-A2A-Notification-Token"] = hook["token"]
                url = hook["url"]
                if self.bad("first url for all"):
                    url = next(iter(job.hooks.values()))["url"]
                if self.bad("push has another type"):
                    headers["Content-Type"] = "text/plain"
                if self.bad("pushes backwards") and not held and not late and state not in DONE:
                    held.append(event)
                    continue
                body = downgraded({"task": event["task"]}) if self.profile == "old" else event
                with contextlib.suppress(httpx.HTTPError):
                    for _ in range(2 if self.bad("notifies twice") else 1):
                        await client.post(url, content=json.dumps(rewritten(self, "push", body)), headers=headers)

    def pushing(self) -> None:
        """Refuse where push notifications are not declared."""
        if not self.able and not self.bad("pushes undeclared"):
            raise Trouble("PUSH_NOTIFICATION_NOT_SUPPORTED", "no push notifications here")

    async def push_create(self, call: Json, who: str, tenant: str) -> Json:
        """CreateTaskPushNotificationConfig."""
        self.pushing()
        kept = self.add_hook(self.find(call.get("taskId"), who, tenant, "push_create"), call)
        if self.bad("push config without id"):
            del kept["id"]
        if self.bad("push config without taskId"):
            del kept["taskId"]
        return kept

    async def push_get(self, call: Json, who: str, tenant: str) -> Json:
        """GetTaskPushNotificationConfig."""
        self.pushing()
        job = self.find(call.get("taskId"), who, tenant, "push_get")
        if call.get("id") not in job.hooks:
            if self.bad("any push config"):
                return {"id": call.get("id"), "taskId": job.key, "url": "https://plain.example/"}
            raise Trouble("TASK_NOT_FOUND", "There is no such configuration.")
        if self.bad("first push config") and job.hooks:
            return next(iter(job.hooks.values()))
        if self.bad("push config ends early") and job.state not in DONE:
            raise Trouble("TASK_NOT_FOUND", "gone")
        return job.hooks[call["id"]]

    async def push_list(self, call: Json, who: str, tenant: str) -> Json:
        """ListTaskPushNotificationConfigs."""
        self.pushing()
        job = self.find(call.get("taskId"), who, tenant, "push_list")
        kept = list(job.hooks.values())
        return {"configs": kept[:1] if self.bad("lists one push config") else kept, "nextPageToken": ""}

    async def push_delete(self, call: Json, who: str, tenant: str) -> Json:
        """DeleteTaskPushNotificationConfig."""
        self.pushing()
        job = self.find(call.get("taskId"), who, tenant, "push_delete")
        if call.get("id") not in job.hooks and self.bad("delete only once"):
            raise Trouble("TASK_NOT_FOUND", "gone already")
        if not self.bad("delete keeps"):
            job.hooks.pop(call.get("id", ""), None)
        return {}

    async def more(self, call: Json, who: str, tenant: str) -> Json:
        """GetExtendedAgentCard."""
        from plain_http import card_of

        if not self.guarded and not self.bad("extended card undeclared"):
            raise Trouble("UNSUPPORTED_OPERATION", "no extended card here")
        if self.bad("extended card is half"):
            return {"name": "more"}
        shown = card_of(self, "http://127.0.0.1")
        shown["description"] += " For you."
        if self.bad("extended card tells a secret"):
            shown["description"] += " api_key=sk-proj-abcdefghijklmnopqrstuvwxyz123456"
        return shown


OPERATIONS: dict[str, tuple[str, Callable[[Plain], Callable[..., Awaitable[Any]]]]] = {
    "SendMessage": ("message/send", lambda p: p.send),
    "SendStreamingMessage": ("message/stream", lambda p: p.stream),
    "GetTask": ("tasks/get", lambda p: p.get),
    "ListTasks": ("tasks/list", lambda p: p.list),
    "CancelTask": ("tasks/cancel", lambda p: p.cancel),
    "SubscribeToTask": ("tasks/resubscribe", lambda p: p.subscribe),
    "CreateTaskPushNotificationConfig": ("tasks/pushNotificationConfig/set", lambda p: p.push_create),
    "GetTaskPushNotificationConfig": ("tasks/pushNotificationConfig/get", lambda p: p.push_get),
    "ListTaskPushNotificationConfigs": ("tasks/pushNotificationConfig/list", lambda p: p.push_list),
    "DeleteTaskPushNotificationConfig": ("tasks/pushNotificationConfig/delete", lambda p: p.push_delete),
    "GetExtendedAgentCard": ("agent/getAuthenticatedExtendedCard", lambda p: p.more),
}
"""The eleven operations of 1.0, with their names in 0.3."""
