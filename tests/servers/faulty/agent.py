"""The eleven operations of A2A 1.0 on raw JSON, the same for every binding."""

import asyncio
import copy
import itertools
import re
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from typing import Any

from faulty.behaviour import CrashError, Worker, agent_message, answer_parts, first_word
from faulty.fault import BY_MISTAKE, Caller, Fault, FaultyCall, Json, dropped, rewritten, single
from faulty.problems import OperationError, Problem, Violation, failure, invalid, violations
from faulty.push import Notifier, refuse_internal
from faulty.store import (
    INTERRUPTED_STATES,
    TERMINAL_STATES,
    Record,
    TaskStore,
    matching,
    new_id,
    now,
    page,
    page_by_offset,
    shown,
)

UNARY = (
    "SendMessage",
    "GetTask",
    "ListTasks",
    "CancelTask",
    "CreateTaskPushNotificationConfig",
    "GetTaskPushNotificationConfig",
    "ListTaskPushNotificationConfigs",
    "DeleteTaskPushNotificationConfig",
    "GetExtendedAgentCard",
)
STREAMED = ("SendStreamingMessage", "SubscribeToTask")
OPERATIONS = (*UNARY, *STREAMED)

# Set for each request, which is a task of its own.
_UNDER_WAY: ContextVar[FaultyCall | None] = ContextVar("under_way", default=None)

# A little more than it needs, for the checks of media types.
_INPUT_MODES = ("text/plain", "application/json", "application/octet-stream", "image/png")
# Seconds; only a task that hangs needs them.
_WAIT = 30.0
# How long a stream stays open after its end (a fault).
_LATE = 4.5


class FaultyAgent:
    """The agent.

    :param extended: the extended card, or None where there is none.
    :param step: seconds of each step of slow work.
    :param version: of the protocol that it speaks, 1.0 or 0.3.
    """

    def __init__(
        self, fault: Fault, card: Json, extended: Json | None, step: float = 0.2, version: str = "1.0"
    ) -> None:
        self.fault = fault
        self.version = version
        self.card = card
        self._extended = extended
        self._step = step
        self.store = TaskStore()
        self._notifier = Notifier(fault, version)
        self._heard: set[str] = set()
        self._requests = itertools.count()
        self._sends = itertools.count(1)
        self._operations: dict[str, Callable[[Json, tuple[str, str]], Any]] = {
            "GetTask": self._get,
            "ListTasks": self._list,
            "CancelTask": self._cancel,
            "CreateTaskPushNotificationConfig": self._create_config,
            "GetTaskPushNotificationConfig": self._get_config,
            "ListTaskPushNotificationConfigs": self._list_configs,
            "DeleteTaskPushNotificationConfig": self._delete_config,
            "GetExtendedAgentCard": self._get_extended,
        }

    def faulted(self, call: FaultyCall) -> Fault | None:
        """Return the fault where it is on that binding and operation."""
        # A fault may be on one binding only, which is what checks of equivalence look for.
        return self.fault if self.fault.is_on(call) else None

    def on(self, switch: str, state: str = "") -> bool:
        """Return whether the fault has that switch, for the call under way and a task in that state."""
        if switch not in self.fault.switches:
            return False
        call = _UNDER_WAY.get()
        return (call is None or self.fault.is_on(call)) and (not self.fault.states or state in self.fault.states)

    async def call(self, call: FaultyCall, caller: Caller) -> Any:
        """Perform an operation with one answer.

        :raises OperationError: with the problem as the binding is to show it.
        """
        _UNDER_WAY.set(call)
        fault = self.faulted(call)
        # Everything that can be refused is refused in one place, so that a fault of errors is made in one place.
        try:
            call, owner = self._admit(call, caller)
            if call.operation == "SendMessage":
                result = await self._send(call.params, owner)
            else:
                result = self._operations[call.operation](call.params, owner)
                result = await result if asyncio.iscoroutine(result) else result
        except OperationError as error:
            result = self._changed(call, error)
        # A copy, because faults change results in place, and the stored task must stay right.
        return fault.reply(call, copy.deepcopy(result)) if fault and fault.touches(result) else result

    async def stream(self, call: FaultyCall, caller: Caller) -> AsyncIterator[Json]:
        """Open a stream. What is wrong from the start is raised before the iterator is returned."""
        _UNDER_WAY.set(call)
        # Before the stream is opened: what is wrong from the start must be an error and no empty stream (section
        # 3.1.2).
        try:
            call, owner = self._admit(call, caller)
            events = await (self._stream_send if call.operation == "SendStreamingMessage" else self._subscribe)(
                call.params, owner
            )
        except OperationError as error:
            changed = self._changed(call, error)
            return single(changed)
        fault = self.faulted(call)
        return rewritten(events, fault, call) if fault else events

    def _changed(self, call: FaultyCall, error: OperationError) -> Any:
        """Return the result that a fault makes of an error, or raise what it leaves of it."""
        fault = self.faulted(call)
        if fault and fault.states:
            record = self.store.find(call.params.get("id") or call.params.get("taskId"), None)
            fault = fault if record is not None and record.state in fault.states else None
        changed = fault.error(call, error.problem) if fault else error.problem
        if isinstance(changed, Problem):
            raise OperationError(changed) from error
        return changed

    def _admit(self, call: FaultyCall, caller: Caller) -> tuple[FaultyCall, tuple[str, str]]:
        """Check what concerns every operation, and return the parameters and the owner of what it may touch."""
        fault = self.faulted(call)
        if fault:
            # The parameters that the fault leaves are those that are checked.
            call = call._replace(params=fault.request(call, copy.deepcopy(call.params)))
        # In this order: version, extensions and capabilities come before the request itself is looked at.
        if not _speaks(caller.version, fault.switches if fault else frozenset()):
            raise failure("VersionNotSupported", f"version {caller.version or '0.3'} is not supported, 1.0 is")
        if self.on("refuse-required") and caller.extensions:
            raise failure("ExtensionSupportRequired")
        self._check_extensions(caller)
        self._check_capabilities(call.operation)
        waived = fault.waive if fault else frozenset()
        # A waived rule is not looked at, whatever the binding.
        found = [v for v in violations(call.operation, call.params) if v.rule not in waived]
        if found:
            raise invalid(found)
        tenant = call.params.get("tenant") or ""
        if tenant and self.on("no-tenant"):
            raise invalid([Violation("tenant", "tenant", "is not known")])
        # Each instance has a store of its own, and a balancer sends every request to the next one.
        store = next(self._requests) % 2 if self.on("two-stores") else 0
        name = caller.name.removesuffix(BY_MISTAKE)
        if name != caller.name and fault is None:
            raise failure("Unauthenticated")
        # Tenant and caller together own a task.
        return call, (name, f"{'' if self.on('one-tenant') else tenant}{store or ''}")

    def _check_extensions(self, caller: Caller) -> None:
        declared = self.card["capabilities"].get("extensions", ())
        missing = [e["uri"] for e in declared if e.get("required") and e["uri"] not in caller.extensions]
        if self.on("refuse-extensions") and set(caller.extensions) - {e["uri"] for e in declared}:
            raise failure("UnsupportedOperation", "unknown extensions are refused")
        if missing and not self.on("no-extension-check"):
            raise failure("ExtensionSupportRequired", f"the client must support {', '.join(missing)}")

    def _check_capabilities(self, operation: str) -> None:
        capabilities = self.card["capabilities"]
        if self.on("no-capability-check"):
            return
        if operation in STREAMED and not capabilities.get("streaming"):
            raise failure("UnsupportedOperation", "this agent does not stream")
        if "PushNotification" in operation and not capabilities.get("pushNotifications"):
            raise failure("PushNotificationNotSupported")
        if operation == "GetExtendedAgentCard" and not capabilities.get("extendedAgentCard"):
            raise failure("UnsupportedOperation", "this agent has no extended card")

    def _find(self, task_id: Any, owner: tuple[str, str] | None) -> Record:
        scope = None if self.on("no-scope") else owner
        record = self.store.find(task_id, scope)
        if record is None and self.on("id-prefix"):
            record = next((r for r in self.store.visible(scope) if r.task["id"].startswith(str(task_id))), None)
        # Forbidden shows that the task exists, which is the fault.
        if record is None and self.on("forbidden") and self.store.find(task_id, None):
            raise failure("Forbidden")
        if record is None:
            raise failure("TaskNotFound", f"there is no task {task_id!r}", taskId=str(task_id))
        return record

    # Sending

    def _begin(self, params: Json, owner: tuple[str, str]) -> Record | Json:
        """Start or continue a task, or answer with a message."""
        message: Json = dict(params.get("message") or {})
        configuration: Json = params.get("configuration") or {}
        parts: list[Any] = message["parts"] if isinstance(message.get("parts"), list) else []
        self._check_media(parts, configuration)
        waiting = [r for r in self.store.visible(owner) if r.state == "TASK_STATE_INPUT_REQUIRED"]
        here = [r.task["id"] for r in waiting if r.task["contextId"] == message.get("contextId")]
        if here and not message.get("taskId") and self.on("context-resumes"):
            message["taskId"] = here[-1]
        record = self._continued(message, owner) if message.get("taskId") else None
        word = first_word(parts)
        modes = [m for m in configuration.get("acceptedOutputModes") or [] if isinstance(m, str)]
        if self.on("third-fails") and not next(self._sends) % 3:
            raise failure("Internal")
        if self.on("repeats-crash") and message.get("messageId") in self._heard:
            raise failure("Internal")
        if self.on("crash-raises") and word == "crash":
            raise CrashError
        self._heard.add(str(message.get("messageId")))
        others = [r.task for r in self.store.visible(None) if r.owner != owner]
        if not self.on("leaks-everything"):
            leaks = self.on("leaks-context")
            others = [task for task in others if leaks and task["contextId"] == message.get("contextId")]
        parts = [*(part for task in others for said in task.get("history", ()) for part in said["parts"]), *parts]
        early = self.on("early-message-task") and configuration.get("returnImmediately")
        if word == "message" and record is None and not early:
            context_id = new_id() if self.on("message-new-context") else message.get("contextId") or new_id()
            return {"message": agent_message(answer_parts(parts, modes), context_id)}
        resumed = record is not None
        record = record or self._new_record(message, owner)
        if push := configuration.get("taskPushNotificationConfig"):
            self._add_config(record, push)
        said = {**message, "taskId": record.task["id"], "contextId": record.task["contextId"]}
        # The message belongs to the task before any work begins, so that its history is complete at every moment.
        history: list[Json] = record.task.setdefault("history", [])
        history.insert(0 if self.on("history-reversed") else len(history), said)
        # A task that still works takes the message without starting anew.
        if (record.work and not record.work.done()) or (resumed and self.on("answer-ignored")):
            return record
        worker = Worker(record, self.store.number, self._step, self.fault.switches)
        record.work = asyncio.create_task(self._work(record, worker, word, parts, modes, resumed=resumed))
        return record

    def _check_media(self, parts: list[Any], configuration: Json) -> None:
        if self.on("any-media"):
            return
        for part in parts:
            media = part.get("mediaType") if isinstance(part, dict) else None
            if media and media.partition(";")[0].strip().lower() not in _INPUT_MODES:
                raise failure("ContentTypeNotSupported", f"{media} is not supported, {', '.join(_INPUT_MODES)} are")

    def _continued(self, message: Json, owner: tuple[str, str]) -> Record:
        record = self._find(message["taskId"], owner)
        if record.state in TERMINAL_STATES and not self.on("continue-terminal", record.state):
            raise failure("UnsupportedOperation", f"task {record.task['id']} has ended and takes no more messages")
        context_id = message.get("contextId")
        is_known = any(context_id == other.task["contextId"] for other in self.store.visible(owner))
        if is_known and self.on("any-known-context"):
            context_id = ""
        if context_id and context_id != record.task["contextId"] and not self.on("any-context"):
            raise invalid([Violation("other-context", "message.contextId", "is not the context of the task")])
        if self.on("auth-deaf") and record.state == "TASK_STATE_AUTH_REQUIRED":
            raise failure("UnsupportedOperation", "the task waits for credentials")
        if self.on("forgets-context") and not context_id:
            record.task["contextId"] = new_id()
        return self._new_record({}, owner) if self.on("forks") else record

    def _new_record(self, message: Json, owner: tuple[str, str]) -> Record:
        context_id = message.get("contextId") or new_id()
        if self.on("new-context") and message.get("contextId"):
            context_id = new_id()
        task_id = f"task-of-{context_id}" if self.on("task-id-of-context") else new_id()
        task: Json = {
            "id": task_id,
            "contextId": context_id,
            "status": {"state": "TASK_STATE_SUBMITTED", "timestamp": now()},
        }
        record = Record(task, owner, self.store.number(), notify=self._notifier.tell, newest_only=self.on("one-stream"))
        self.store.add(record)
        return record

    async def _work(
        self, record: Record, worker: Worker, word: str, parts: list[Json], modes: list[str], *, resumed: bool
    ) -> None:
        try:
            if self.on("push-waits"):
                worker.status("TASK_STATE_WORKING")
                await self._notifier.drained(record)
            await worker.run(word, parts, modes, resumed=resumed)
        except CrashError as error:
            worker.status("TASK_STATE_FAILED", str(error))

    async def _send(self, params: Json, owner: tuple[str, str]) -> Json:
        begun = self._begin(params, owner)
        if not isinstance(begun, Record):
            return begun
        configuration = params.get("configuration") or {}
        if not self.on("never-block") and (not configuration.get("returnImmediately") or self.on("always-block")):
            # Waits for the end of the work and not of the task: a task that waits for input is done for now.
            assert begun.work is not None
            await asyncio.wait([begun.work], timeout=self._step / 2 if self.on("slow-not-blocked") else _WAIT)
            if begun.state in INTERRUPTED_STATES and self.on("blocks-while-waiting", begun.state):
                await asyncio.sleep(_WAIT)
        return {"task": shown(begun.task, configuration.get("historyLength"))}

    # Streams

    async def _stream_send(self, params: Json, owner: tuple[str, str]) -> AsyncIterator[Json]:
        begun = self._begin(params, owner)
        if isinstance(begun, Record):
            length = (params.get("configuration") or {}).get("historyLength")
            return self._follow(begun, begun.listen(None if self.on("stream-history") else length))
        return single(begun)

    async def _subscribe(self, params: Json, owner: tuple[str, str]) -> AsyncIterator[Json]:
        record = self._find(params.get("id"), owner)
        waits = record.state == "TASK_STATE_INPUT_REQUIRED" and self.on("subscribe-not-waiting")
        if waits or (record.state in TERMINAL_STATES and not self.on("subscribe-terminal")):
            raise failure("UnsupportedOperation", f"task {record.task['id']} has ended")
        return self._follow(record, record.listen())

    async def _follow(self, record: Record, queue: asyncio.Queue[Json]) -> AsyncIterator[Json]:
        held: list[Json] = []
        deaf = False
        try:
            while True:
                # An empty event is the sign to end.
                event = await queue.get()
                if not event:
                    return
                held.append(event)
                is_held = self.on("stream-late") or (self.on("stream-burst") and "task" not in event)
                if not is_held or record.resting:
                    for ready in held:
                        yield ready
                    held = []
                holder = event.get("statusUpdate") or event.get("task") or {}
                state = holder.get("status", {}).get("state")
                if self.on("endless-stream", state):
                    continue
                # Section 11.7 closes on both interrupted states, section 7.6.1 keeps the stream open for AUTH_REQUIRED.
                interrupted = "statusUpdate" in event and state == "TASK_STATE_INPUT_REQUIRED"
                deaf = deaf or (interrupted and self.on("open-after-input"))
                if not deaf and (state in TERMINAL_STATES or (interrupted and not self.on("open-input"))):
                    if self.on("late-end"):
                        await asyncio.sleep(_LATE)
                    return
        finally:
            # Whoever leaves must not keep an entry: events would pile up for nobody.
            record.streams.remove(queue)
            if self.on("closes-all") and not record.resting:
                for other in record.streams:
                    other.put_nowait({})
            if self.on("task-dies-with-stream") and record.work and not record.resting:
                record.work.cancel()

    # Tasks

    def _get(self, params: Json, owner: tuple[str, str]) -> Json:
        return shown(self._find(params.get("id"), owner).task, params.get("historyLength"))

    def _list(self, params: Json, owner: tuple[str, str]) -> Json:
        scope = None if self.on("no-scope") or self.on("list-all-owners") else owner
        found = matching(self.store.visible(scope), params)
        if self.on("unknown-context-lists-all") and not found and not params.get("status"):
            found = matching(self.store.visible(scope), dropped(params, "contextId"))
        if self.on("working-includes-input") and params.get("status") == "TASK_STATE_WORKING":
            waiting = {**params, "status": "TASK_STATE_INPUT_REQUIRED"}
            found = [*found, *matching(self.store.visible(scope), waiting)]
        if self.on("context-prefix") and (begin := params.get("contextId")):
            everything = matching(self.store.visible(scope), dropped(params, "contextId"))
            found = [record for record in everything if record.task["contextId"].startswith(begin)]
        if self.on("list-by-birth"):
            # The store keeps them in the order of their making.
            made = [record.task["id"] for record in self.store.visible(scope)]
            found.sort(key=lambda record: made.index(record.task["id"]), reverse=True)
        if self.on("list-oldest-first"):
            # The fault turns around what is newest first by default.
            found.reverse()
        # An agent may return fewer than it was asked for.
        at_most = min(2, int(params.get("pageSize") or 50)) if self.on("short-pages") else params.get("pageSize")
        turn = page_by_offset if self.on("list-offset") else page
        chosen, token = turn(found, {**params, "pageSize": at_most})
        artifacts = bool(params.get("includeArtifacts"))
        return {
            "tasks": [shown(r.task, params.get("historyLength"), artifacts=artifacts) for r in chosen],
            "nextPageToken": token,
            "pageSize": int(params.get("pageSize") or 50),
            "totalSize": len(matching(self.store.visible(None), params) if self.on("list-total-of-all") else found),
        }

    async def _cancel(self, params: Json, owner: tuple[str, str]) -> Json:
        record = self._find(params.get("id"), owner)
        # The fault: a cancelled task is revived by the second cancel.
        if record.state == "TASK_STATE_CANCELED" and self.on("second-cancel-revives"):
            record.task["status"] = {"state": "TASK_STATE_WORKING", "timestamp": now()}
            return shown(record.task, None)
        if record.state in TERMINAL_STATES:
            raise failure("TaskNotCancelable", f"task {record.task['id']} is {record.state}")
        if record.state == "TASK_STATE_INPUT_REQUIRED" and self.on("cancel-not-waiting"):
            raise failure("TaskNotFound")
        if record.work and not self.on("zombie") and not self.on("artifact-after-cancel"):
            record.work.cancel()
        if not self.on("cancel-nothing"):
            worker = Worker(record, self.store.number, 0)
            worker.status("TASK_STATE_CANCELED", silent=self.on("silent-cancel"))
        if self.on("forgets-canceled"):
            self.store.forget(record)
        return shown(record.task, None)

    # Push notifications

    def _add_config(self, record: Record, given: Json) -> Json:
        if given.get("url") or not self.on("any-url"):
            refuse_internal(str(given.get("url", "")), allowed=self.on("any-webhook"))
        # Nothing is stored that ProtoJSON would not send.
        config = {k: v for k, v in given.items() if v not in (None, "", {}) and k != "tenant"}
        config["id"] = config.get("id") or new_id()
        config["taskId"] = record.task["id"]
        if self.on("keeps-one-config"):
            record.configs.clear()
        record.configs[config["id"]] = config
        return config

    def _create_config(self, params: Json, owner: tuple[str, str]) -> Json:
        return self._add_config(self._find(params.get("taskId"), owner), params)

    def _get_config(self, params: Json, owner: tuple[str, str]) -> Json:
        record = self._find(params.get("taskId"), owner)
        if params["id"] not in record.configs:
            raise failure("TaskNotFound", f"task {record.task['id']} has no configuration {params['id']!r}")
        return record.configs[params["id"]]

    def _list_configs(self, params: Json, owner: tuple[str, str]) -> Json:
        known = None if params.get("pageSize") and self.on("configs-by-page") else owner
        asked = self._find(params.get("taskId"), known)
        records = self.store.visible(None) if self.on("lists-all-configs") else (asked,)
        return {"configs": [config for record in records for config in record.configs.values()]}

    def _delete_config(self, params: Json, owner: tuple[str, str]) -> Json:
        record = self._find(params.get("taskId"), owner)
        if self.on("delete-once") and params["id"] not in record.configs:
            raise failure("TaskNotFound", f"there is no configuration {params['id']!r}")
        if not self.on("delete-nothing"):
            record.configs.pop(params["id"], None)
        return {}

    def _get_extended(self, params: Json, owner: tuple[str, str]) -> Json:
        if self._extended is None:
            raise failure("ExtendedAgentCardNotConfigured")
        return self._extended


def _speaks(version: str, switches: frozenset[str]) -> bool:
    """Return whether that is 1.0; a patch number does not matter, and nothing at all means 0.3."""
    version = version.strip()
    if version == "0.3" and "old-version" in switches:
        return True
    if "any-version" in switches or ("no-version-is-1.0" in switches and not version):
        # Patch numbers do not matter (section 3.6).
        return True
    pattern = r"1(\.\d+)+" if "any-minor" in switches else r"1\.0(\.\d+)?"
    return re.fullmatch(pattern, version) is not None
