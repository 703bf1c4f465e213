"""The gRPC binding of the faulty agent. Importing this module needs grpcio."""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import grpc
import grpc.aio
from a2a.compat.v0_3 import a2a_v0_3_pb2
from a2a.types import a2a_pb2
from google.protobuf import any_pb2, empty_pb2
from google.protobuf.json_format import MessageToDict, ParseDict
from google.rpc import error_details_pb2, status_pb2

from faulty import old
from faulty.agent import OPERATIONS, STREAMED, FaultyAgent
from faulty.fault import Caller, FaultyCall, Json
from faulty.http import identify
from faulty.problems import ERROR_INFO, GRPC_CODES, OperationError, Problem

_MODULES: dict[str, Any] = {"1.0": a2a_pb2, "0.3": a2a_v0_3_pb2}
_CODES: dict[int, Any] = {code.value[0]: code for code in grpc.StatusCode}


def handlers(agent: FaultyAgent, tokens: Mapping[str, str]) -> Any:
    """Return the generic handler that serves every operation."""
    service = _MODULES[agent.version].DESCRIPTOR.services_by_name["A2AService"]
    made = {}
    for operation in OPERATIONS:
        name = old.GRPC_NAMES.get(operation, operation) if agent.version == "0.3" else operation
        if name in service.methods_by_name:
            made[name] = _handler(agent, tokens, operation, service.methods_by_name[name])
    return grpc.method_handlers_generic_handler(service.full_name, made)


def _handler(agent: FaultyAgent, tokens: Mapping[str, str], name: str, method: Any) -> Any:
    module = _MODULES[agent.version]
    request_type = getattr(module, method.input_type.name)
    reply_type: Any = getattr(module, method.output_type.name, empty_pb2.Empty)

    def admit(request: Any, context: Any) -> tuple[FaultyCall, Caller]:
        metadata = {key.lower(): value for key, value in context.invocation_metadata()}
        caller_name = identify(
            str(metadata.get("authorization", "")), tokens, agent.faulted(FaultyCall("GRPC", name, {}))
        )
        wanted = str(metadata.get("x-a2a-extensions" if agent.version == "0.3" else "a2a-extensions", ""))
        is_free = agent.version == "0.3" and not agent.on("wants-version")
        version = "1.0" if is_free else str(metadata.get("a2a-version", ""))
        uris = tuple(uri.strip() for uri in wanted.split(",") if uri.strip())
        call = old.read(agent, FaultyCall("GRPC", name, MessageToDict(request), version))
        return call, Caller(caller_name, version, uris)

    async def unary(request: Any, context: Any) -> Any:
        call = FaultyCall("GRPC", name, {})
        try:
            call, caller = admit(request, context)
            result = await agent.call(call, caller)
        except OperationError as error:
            await _abort(context, _seen(agent, call, error.problem))
        return ParseDict(old.written(agent, call, result), reply_type(), ignore_unknown_fields=True)

    async def stream(request: Any, context: Any) -> AsyncIterator[Any]:
        call = FaultyCall("GRPC", name, {})
        try:
            call, caller = admit(request, context)
            events = await agent.stream(call, caller)
        except OperationError as error:
            await _abort(context, _seen(agent, call, error.problem))
        async for event in events:
            yield ParseDict(old.written(agent, call, event), reply_type(), ignore_unknown_fields=True)
            if agent.on("grpc-breaks-off"):
                await context.abort(grpc.StatusCode.ABORTED, "the stream broke off")

    wrap: Callable[..., Any] = (
        grpc.unary_stream_rpc_method_handler if name in STREAMED else grpc.unary_unary_rpc_method_handler
    )
    return wrap(
        stream if name in STREAMED else unary,
        request_deserializer=request_type.FromString,
        response_serializer=reply_type.SerializeToString,
    )


def _seen(agent: FaultyAgent, call: FaultyCall, problem: Problem) -> Problem:
    """Let the fault see a refusal that the agent itself never saw."""
    fault = agent.faulted(call)
    if fault is None or problem.kind != "Unauthenticated":
        return problem
    changed = fault.error(call, problem)
    return changed if isinstance(changed, Problem) else problem


async def _abort(context: Any, problem: Problem) -> None:
    code = GRPC_CODES.get(problem.grpc, 2)
    status = status_pb2.Status(code=code, message=problem.message, details=[_packed(d) for d in problem.details])
    metadata = (("grpc-status-details-bin", status.SerializeToString()),)
    await context.abort(_CODES[code], problem.message, metadata)


def _packed(detail: Json) -> Any:
    fields = {name: value for name, value in detail.items() if name != "@type"}
    known: Any = error_details_pb2.ErrorInfo() if detail.get("@type") == ERROR_INFO else error_details_pb2.BadRequest()
    packed = any_pb2.Any()
    packed.Pack(ParseDict(fields, known, ignore_unknown_fields=True))
    return packed
