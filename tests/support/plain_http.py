"""The bindings of the plain agent (``plain_agent``), its card, and a port to serve them on."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import sys
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import unquote

import odd_writing
import uvicorn
from plain_agent import CALLERS, CODES, DONE, EXTENSION, KINDS, MODES, OPERATIONS, Json, Plain, Trouble
from plain_faults import rewritten
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from pytest_a2a_bench.quiet_server import QuietServer

TENANTS = ("north", "south")


def card_of(agent: Plain, base: str) -> Json:
    """Return the agent's card."""
    card: Json = {
        "name": "Plain agent",
        "description": "Does little, and that by the book.",
        "version": "1.0.0",
        "provider": {"organization": "Plain", "url": "https://plain.example"},
        "capabilities": {"streaming": agent.able, "pushNotifications": agent.able},
        "defaultInputModes": list(MODES),
        "defaultOutputModes": list(MODES),
        "skills": [{"id": "little", "name": "Little", "description": "Does little.", "tags": ["little"]}],
    }
    if agent.profile == "old":
        card |= {"url": f"{base}/rpc", "preferredTransport": "JSONRPC", "protocolVersion": "0.3.0"}
        card["additionalInterfaces"] = [{"url": f"{base}/rpc", "transport": "JSONRPC"}]
        card["capabilities"]["stateTransitionHistory"] = False
        return card
    spoken = (("JSONRPC", "/rpc"), ("HTTP+JSON", "/rest"))
    card["supportedInterfaces"] = [
        {"url": base + path, "protocolBinding": name, "protocolVersion": "1.0", **tenant}
        for name, path in spoken
        for tenant in ([{"tenant": t} for t in TENANTS] if agent.profile == "tenants" else [{}])
    ]
    if agent.bad("binding of its own"):
        own = {"url": "mqtt:agents/plain", "protocolBinding": "https://plain.example/bindings/mqtt"}
        card["supportedInterfaces"].append({**own, "protocolVersion": "1.0"})
    if agent.guarded:
        card["capabilities"]["extendedAgentCard"] = True
        card["securitySchemes"] = {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}
        card["securityRequirements"] = [{"schemes": {"bearer": {"list": []}}}]
    if agent.profile == "strict":
        extension = {"uri": EXTENSION, "required": True, "description": "Says little."}
        card["capabilities"]["extensions"] = [extension]
    return card


def error_of(agent: Plain, trouble: Trouble) -> tuple[int, int, str, list[Json]]:
    """Return JSON-RPC code, HTTP status, its name, and details."""
    code, status, name = CODES[trouble.kind]
    if trouble.kind.isupper():
        info = {"reason": trouble.kind, "domain": "a2a-protocol.org", "metadata": {}}
        return code, status, name, [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", **info}]
    if trouble.where:
        wrong = [{"field": trouble.where, "description": trouble.words}]
        return code, status, name, [{"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": wrong}]
    return code, status, name, []


class Doors:
    """What answers over HTTP."""

    def __init__(self, agent: Plain) -> None:
        self.agent, self.base = agent, ""

    def reply(self, body: Any, status: int = 200, media: str = "application/json", **headers: str) -> Response:
        """Write JSON, or what a fault makes of it."""
        status, media, headers = rewritten(self.agent, "head", (status, media, headers))
        if self.agent.bad("odd writing"):
            return Response(
                odd_writing.text(body), status, {**headers, "content-type": f'{media.upper()} ; Charset="UTF-8"'}
            )
        text = json.dumps(body)
        return Response(rewritten(self.agent, "text", text), status, {**headers, "content-type": media})

    async def card(self, request: Request) -> Response:
        """Serve the card."""
        card = rewritten(self.agent, "card", card_of(self.agent, self.base))
        text = card if isinstance(card, str) else json.dumps(card)
        if self.agent.bad("odd writing"):
            text = odd_writing.text(card)
        etag = f'"{hashlib.sha256(text.encode()).hexdigest()[:16]}"'
        headers = {"cache-control": "public, max-age=60", "etag": etag, "content-type": "application/json"}
        headers = rewritten(self.agent, "card headers", headers)
        if request.headers.get("if-none-match") == etag and not self.agent.bad("card always whole"):
            return Response(b"", 304, headers)
        return Response(text, 404 if self.agent.bad("no card") else 200, headers)

    def admit(self, request: Request, op: str) -> str:
        """Return who calls.

        :raises PermissionError: If nobody may.
        """
        if not self.agent.guarded or self.agent.bad(f"open {op}"):
            return CALLERS.get(request.headers.get("authorization", ""), "anna" if self.agent.guarded else "")
        given = request.headers.get("authorization", "")
        if given and self.agent.bad("any token"):
            return CALLERS.get(given, "anna")
        if given not in CALLERS:
            raise PermissionError
        return CALLERS[given]

    def versions(self, request: Request, op: str) -> None:
        """Refuse other versions, and clients without a required extension."""
        bad, told = self.agent.bad, request.headers.get("a2a-version", "")
        told = told or request.query_params.get("A2A-Version", "")
        if self.agent.profile == "old" or bad(f"any version {op}") or bad("any version"):
            return
        if bad("no version is 1.0") and not told:
            return
        whole = told.split(".")
        fine = whole[:2] == ["1", "0"] and all(n.isdigit() for n in whole) and len(whole) <= 3
        if (bad("patch refused") and len(whole) > 2) or (
            bad("version by case") and "A2A-Version" not in str(request.headers.raw)
        ):
            fine = bad("version by case") and any(k == b"A2A-Version" for k, _ in request.headers.raw)
        if (bad("major is enough") and whole[0] == "1") or (
            bad("malformed passes") and told and not whole[0].isdigit()
        ):
            fine = True
        if not fine:
            raise Trouble("VERSION_NOT_SUPPORTED", f"Version {told or '0.3'!r} is not spoken here, only 1.0.")
        asked = [p.strip() for p in request.headers.get("a2a-extensions", "").split(",") if p.strip()]
        if bad("one extension only"):
            asked = [request.headers.get("a2a-extensions", "")]
        if bad("extensions refused") and [a for a in asked if a != EXTENSION]:
            raise Trouble("params", "unknown extension")
        if self.agent.profile == "strict" and EXTENSION not in asked:
            near = any(a.startswith(EXTENSION.rpartition("/")[0]) for a in asked)
            if not (
                bad("extension not required") or bad(f"extension not required {op}") or (bad("near extension") and near)
            ):
                raise Trouble("EXTENSION_SUPPORT_REQUIRED", f"Extension {EXTENSION} is required here.")
        if self.agent.profile == "strict" and EXTENSION in asked and bad("extension refused"):
            raise Trouble("EXTENSION_SUPPORT_REQUIRED", "no")

    def refuse(self) -> Response:
        """Answer callers without credentials."""
        headers = {} if self.agent.bad("no challenge") else {"www-authenticate": 'Bearer realm="plain"'}
        if self.agent.bad("bare refusal"):
            return Response(b"", 401, headers)
        return self.reply({"error": "credentials, please"}, 400 if self.agent.bad("refusal is 400") else 401, **headers)

    def echoed(self, op: str) -> Any:
        """Return the function that makes an answer of a binding out of a result."""
        old = self.agent.profile == "old"

        def make(result: Any) -> Any:
            result = rewritten(self.agent, op, result)
            result = rewritten(self.agent, "out", result)
            return rewritten(self.agent, "old", downgraded(result, op)) if old else result

        return make

    async def rpc(self, request: Request) -> Response:
        """Answer JSON-RPC."""
        agent, key, op = self.agent, None, ""
        try:
            try:
                call = json.loads(await request.body())
            except ValueError:
                raise Trouble("parse", "This is no JSON.") from None
            if isinstance(call, dict) and (call.get("id") is None or isinstance(call["id"], (str, int))):
                key = call.get("id")
            if agent.bad("numbers become text") and isinstance(key, int):
                key = str(key)
            if not isinstance(call, dict) or call.get("jsonrpc") != "2.0" or not isinstance(call.get("method"), str):
                slack = isinstance(call, dict) and agent.bad("any jsonrpc") and "method" in call
                if not slack:
                    raise Trouble("request", "This is no JSON-RPC request.")
            names = {(old if agent.profile == "old" else new): new for new, (old, _) in OPERATIONS.items()}
            if agent.bad("old names too"):
                names |= {old: new for new, (old, _) in OPERATIONS.items()}
            if call["method"] not in names or agent.bad(f"no {names[call['method']]}"):
                raise Trouble("method", f"There is no method {call['method']}.")
            op = names[call["method"]]
            who = self.admit(request, op)
            self.versions(request, op)
            params = call.get("params", {})
            if not isinstance(params, dict):
                if not agent.bad("any params"):
                    raise Trouble("params", "params is an object", "params")
                params = {}
            if agent.profile == "old":
                params = upgraded(params, op)
            tenant = params.get("tenant", "") if agent.profile == "tenants" else ""
            if agent.profile == "tenants" and tenant not in TENANTS:
                raise Trouble("params", "no such tenant", "tenant")
            if agent.bad("tenant refused") and tenant:
                raise Trouble("params", "no tenants", "tenant")
            found = await OPERATIONS[op][1](agent)(params, who, tenant)
        except PermissionError:
            return self.refuse()
        except Trouble as trouble:
            return self.reply(self.rpc_error(trouble, key, op))
        make = self.echoed(op)
        if hasattr(found, "__aiter__"):

            def wrapped(event: Any) -> Any:
                return rewritten(agent, "event", {"jsonrpc": "2.0", "id": key, "result": make(event)})

            return self.events(found, wrapped)
        return self.reply(rewritten(agent, "envelope", {"jsonrpc": "2.0", "id": key, "result": make(found)}))

    def rpc_error(self, trouble: Trouble, key: Any, op: str) -> Json:
        """Return a JSON-RPC error."""
        code, _, _, details = error_of(self.agent, trouble)
        error: Json = {"code": code, "message": trouble.words}
        if details and self.agent.profile != "old":
            error["data"] = details
        error = rewritten(self.agent, f"error {trouble.kind}", error)
        return dict(rewritten(self.agent, "error envelope", {"jsonrpc": "2.0", "id": key, "error": error}))

    def events(self, found: AsyncIterator[Json], make: Any) -> Response:
        """Answer with a stream."""

        async def lines() -> AsyncIterator[str]:
            async with contextlib.aclosing(found) as events:  # type: ignore[type-var]
                async for event in events:
                    made = make(event)
                    yield odd_writing.event(made) if self.agent.bad("odd writing") else f"data: {json.dumps(made)}\n\n"

        media = "application/json" if self.agent.bad("streams as json") else "text/event-stream"
        return StreamingResponse(lines(), media_type=media)

    async def rest(self, request: Request) -> Response:
        """Answer HTTP+JSON."""
        agent, path, verb = self.agent, request.scope["raw_path"].decode().removeprefix("/rest"), request.method
        path = unquote(path) if agent.bad("slashes separate") else path
        steps = [unquote(step) if not agent.bad("paths undecoded") else step for step in path.strip("/").split("/")]
        op, tenant = "", ""
        params: Json = {}
        try:
            if agent.profile == "tenants":
                tenant, steps = steps[0], steps[1:]
                if tenant not in TENANTS:
                    raise Trouble("method", "no such tenant")
            op, params = self.route(verb, steps, request)
            if not op or agent.bad(f"no {op}"):
                raise Trouble("method", f"There is no {verb} {path}.")
            who = self.admit(request, op)
            self.versions(request, op)
            media = request.headers.get("content-type", "").partition(";")[0]
            if verb == "POST" and (text := await request.body()):
                if media not in ("application/json", "application/a2a+json") or (
                    agent.bad("json refused") and "a2a" not in media
                ):
                    raise Trouble("CONTENT_TYPE_NOT_SUPPORTED", "send application/a2a+json")
                try:
                    body = json.loads(text)
                except ValueError:
                    raise Trouble("parse", "This is no JSON.") from None
                if not isinstance(body, dict):
                    raise Trouble("params", "the body is an object", "body")
                params = {**body, **params}
            found = await OPERATIONS[op][1](agent)(params, who, tenant)
        except PermissionError:
            return self.refuse()
        except Trouble as trouble:
            _, status, name, details = error_of(agent, trouble)
            status, error = rewritten(
                agent,
                f"rest {trouble.kind}",
                (status, {"error": {"code": status, "status": name, "message": trouble.words, "details": details}}),
            )
            return self.reply(rewritten(agent, "rest error", error), status, "application/json")
        make = self.echoed(op)
        if hasattr(found, "__aiter__"):
            return self.events(found, lambda e: rewritten(agent, "rest event", make(e)))
        media = "text/json" if agent.bad("rest media type") else "application/a2a+json"
        headers = {"cache-control": "private, max-age=60", "etag": '"more"'} if op == "GetExtendedAgentCard" else {}
        if agent.bad("extended card uncached"):
            headers = {}
        return self.reply(make(found), 200, media, **headers)

    def route(self, verb: str, steps: list[str], request: Request) -> tuple[str, Json]:
        """Return the operation of a path, and the parameters in it and its query."""
        match (verb, *steps):
            case ("POST", "message:send"):
                return "SendMessage", {}
            case ("POST", "message:stream"):
                return "SendStreamingMessage", {}
            case ("GET", "tasks"):
                return "ListTasks", self.query(request)
            case ("GET", "extendedAgentCard"):
                return "GetExtendedAgentCard", {}
            case ("POST", "tasks", step) if step.endswith(":cancel"):
                return "CancelTask", {"id": step.removesuffix(":cancel")}
            case (("POST" | "GET"), "tasks", step) if step.endswith(":subscribe"):
                return "SubscribeToTask", {"id": step.removesuffix(":subscribe")}
            case ("GET", "tasks", step):
                return "GetTask", {**self.query(request), "id": step}
            case ("POST", "tasks", task, "pushNotificationConfigs"):
                return "CreateTaskPushNotificationConfig", {"taskId": task}
            case ("GET", "tasks", task, "pushNotificationConfigs"):
                return "ListTaskPushNotificationConfigs", {"taskId": task}
            case ("GET", "tasks", task, "pushNotificationConfigs", step):
                return "GetTaskPushNotificationConfig", {"taskId": task, "id": step}
            case ("DELETE", "tasks", task, "pushNotificationConfigs", step):
                return "DeleteTaskPushNotificationConfig", {"taskId": task, "id": step}
        return "", {}

    def query(self, request: Request) -> Json:
        """Return query parameters as JSON values."""
        found: Json = dict(request.query_params)
        if self.agent.bad("query in snake case"):
            return {}
        if self.agent.bad("query undecoded"):
            found = dict(p.partition("=")[::2] for p in request.url.query.split("&") if p)
        for name in ("pageSize", "historyLength"):
            if name in found:
                with contextlib.suppress(ValueError):
                    found[name] = int(found[name])
        if "includeArtifacts" in found:
            found["includeArtifacts"] = found["includeArtifacts"] == "true" and not self.agent.bad(
                "query booleans unread"
            )
        return found


# -- 0.3 -------------------------------------------------------------------------------------------------------------


def state_03(state: str) -> str:
    """Return the name of a state in 0.3."""
    return state.removeprefix("TASK_STATE_").lower().replace("_", "-")


def downgraded(thing: Any, op: str = "") -> Any:
    """Return a result as 0.3 writes it."""
    if not isinstance(thing, dict):
        return thing
    if op == "ListTaskPushNotificationConfigs":
        return [downgraded(each, "push") for each in thing["configs"]]
    if op == "DeleteTaskPushNotificationConfig":
        return None
    if "PushNotification" in op or op == "push":
        inner = {k: v for k, v in thing.items() if k not in ("taskId", "authentication")}
        auth = thing.get("authentication") or {}
        if auth:
            inner["authentication"] = {"schemes": [auth["scheme"]], "credentials": auth.get("credentials")}
        return {"taskId": thing["taskId"], "pushNotificationConfig": inner}
    for name, kind in (("task", "task"), ("message", "message"), ("statusUpdate", "status-update")):
        if name in thing and isinstance(thing[name], dict) and len(thing) == 1:
            return {"kind": kind, **downgraded(thing[name])} if name == "statusUpdate" else downgraded(thing[name])
    if "artifactUpdate" in thing:
        return {"kind": "artifact-update", **downgraded(thing["artifactUpdate"])}
    new = dict(thing)
    if "messageId" in new:
        new |= {"kind": "message", "role": "agent" if new["role"] == "ROLE_AGENT" else "user"}
    if "status" in new:
        state = new["status"]["state"]
        new["status"] = {**new["status"], "state": state_03(state)}
        if "message" in new["status"]:
            new["status"]["message"] = downgraded(new["status"]["message"])
        if "id" in new:
            new["kind"] = "task"
        else:
            new["final"] = state in DONE or state == "TASK_STATE_INPUT_REQUIRED"
    if "parts" in new:
        new["parts"] = [part_03(part) for part in new["parts"]]
    for name in ("artifacts", "history"):
        if name in new:
            new[name] = [downgraded(each) for each in new[name]]
    if "artifact" in new:
        new["artifact"] = downgraded(new["artifact"])
    return new


def part_03(part: Json) -> Json:
    """Return a part as 0.3 writes it."""
    if "text" in part:
        return {"kind": "text", "text": part["text"]}
    if "data" in part:
        return {"kind": "data", "data": part["data"]}
    file = {"bytes": part["raw"]} if "raw" in part else {"uri": part.get("url")}
    return {"kind": "file", "file": {**file, "name": part.get("filename"), "mimeType": part.get("mediaType")}}


def upgraded(params: Json, op: str) -> Json:
    """Return parameters of 0.3 as those of 1.0."""
    if op in ("SendMessage", "SendStreamingMessage"):
        said = params.get("message")
        if isinstance(said, dict):
            said = dict(said)
            if said.get("role") in ("user", "agent"):
                said["role"] = "ROLE_" + said["role"].upper()
            if isinstance(said.get("parts"), list):
                said["parts"] = [part_10(part) for part in said["parts"]]
        chosen = dict(params.get("configuration") or {})
        chosen["returnImmediately"] = not chosen.pop("blocking", False)
        push = chosen.pop("pushNotificationConfig", None)
        if push:
            chosen["taskPushNotificationConfig"] = push_10(push)
        return {"message": said, "configuration": chosen}
    if op == "CreateTaskPushNotificationConfig" and isinstance(params.get("pushNotificationConfig"), dict):
        return {"taskId": params.get("taskId"), **push_10(params["pushNotificationConfig"])}
    if "PushNotification" in op:
        return {"taskId": params.get("id"), "id": params.get("pushNotificationConfigId")}
    return params


def push_10(config: Json) -> Json:
    """Return a push configuration of 0.3 as one of 1.0."""
    auth = config.get("authentication") or {}
    if auth:
        scheme = (auth.get("schemes") or [""])[0]
        return {**config, "authentication": {"scheme": scheme, "credentials": auth.get("credentials")}}
    return config


def part_10(part: Any) -> Any:
    """Return a part of 0.3 as one of 1.0."""
    if not isinstance(part, dict):
        return part
    if part.get("kind") == "file" and isinstance(part.get("file"), dict):
        file = part["file"]
        made = {"raw": file["bytes"]} if "bytes" in file else {"url": file["uri"]} if "uri" in file else {}
        return {**made, **({"mediaType": file["mimeType"]} if file.get("mimeType") else {})}
    return {key: part[key] for key in KINDS if key in part}


class Port:
    """The agent on a port of this machine, while the ``async with`` lasts."""

    def __init__(self, profile: str = "full", fault: str = "") -> None:
        self.agent = Plain(profile, fault)
        self.url = ""

    async def __aenter__(self) -> Port:
        doors = Doors(self.agent)
        routes = [
            Route("/.well-known/agent-card.json", doors.card),
            Route("/rpc", doors.rpc, methods=["POST"]),
            Route("/rest/{rest:path}", doors.rest, methods=["GET", "POST", "DELETE"]),
        ]
        app = Starlette(routes=routes)
        config = uvicorn.Config(app, port=0, log_level="critical", lifespan="off", timeout_graceful_shutdown=1)
        self.server = QuietServer(config)
        self.serving = asyncio.create_task(self.server.serve())
        while not self.server.started:
            await asyncio.sleep(0.01)
        self.url = doors.base = f"http://127.0.0.1:{self.server.servers[0].sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        working = [work for job in self.agent.jobs.values() for work in (job.work, job.post) if work]
        for work in working:
            work.cancel()
        await asyncio.gather(*working, return_exceptions=True)
        self.server.should_exit = self.server.force_exit = True
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.serving, 3)


async def _serve(profile: str) -> None:
    async with Port(profile) as port:
        print(port.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
