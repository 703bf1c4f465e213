"""Faults of who may ask what and how: versions, credentials, the extended card, extensions and tenants."""

from __future__ import annotations

from typing import Any

from pytest_a2a_bench.agents.faulty.fault import (
    GRPC,
    HTTP,
    REST,
    Fault,
    FaultyCall,
    Json,
    Packet,
    answering,
    error_as,
    headers,
    only,
    switch,
)
from pytest_a2a_bench.agents.faulty.problems import failure


def _extended_codes() -> list[Fault]:
    kind = "ExtendedAgentCardNotConfigured"
    plan = (
        ("JSON", "JSONRPC", {"code": -32603}),
        ("HTTP", "HTTP+JSON", {"http": 500}),
        ("GRPC", "GRPC", {"grpc": "INTERNAL"}),
    )
    return [
        Fault(
            f"code-{place.lower()}-{kind}",
            f"{kind}Error is {next(iter(fields.values()))} on {binding}.",
            (f"ERR-{place}-{kind}",),
            variant="guarded",
            bindings=(binding,),
            switches=frozenset({"no-extended"}),
            error=error_as(kind, **fields),
        )
        for place, binding, fields in plan
    ]


def _refuse_patch(call: FaultyCall, params: Json) -> Json:
    if call.version.count(".") > 1:
        raise failure("VersionNotSupported", f"version {call.version} is not supported")
    return params


def _unauthenticated(**fields: Any) -> Any:
    return error_as("Unauthenticated", **fields)


def _no_challenge(call: FaultyCall, packet: Packet) -> Packet:
    return headers(www_authenticate=None)(call, packet) if packet.status == 401 else packet


def _thin(result: Json) -> Json:
    return {k: v for k, v in result.items() if k not in ("skills", "version")}


def _public_secret(result: Json) -> Json:
    return {**result, "description": "Uses the key sk-live-51H8aBcDeFgHiJkLmNoPqRsTuVwXyZ0123456789."}


ACCESS_FAULTS = (
    *_extended_codes(),
    switch("refuse-required", "Callers that know the required extension are refused.", "EXT-002", variant="strict"),
    switch("no-commas", "A list of extensions is read as one.", "EXT-005", variant="strict", bindings=HTTP),
    switch("any-version", "Every protocol version is accepted.", "VER-001", "VER-002", "VER-004", "VER-007"),
    switch(
        "any-version-grpc", "gRPC ignores the version.", "VER-001", "GR-002", "EQ-003", bindings=GRPC, by="any-version"
    ),
    switch(
        "query-version",
        "A version in the query breaks the server.",
        "VER-006",
        bindings=HTTP,
        by="query-version-breaks",
    ),
    switch("any-minor", "Every minor version is accepted.", "VER-004"),
    switch("no-version-is-1.0", "A missing version means 1.0.", "VER-002"),
    Fault("no-patch", "A patch version is refused.", ("VER-003",), request=_refuse_patch),
    switch(
        "no-auth-missing",
        "Calls without credentials are answered.",
        "AUTH-001",
        "AUTH-005",
        "XCARD-003",
        variant="guarded",
    ),
    switch("any-token", "Any bearer token is good.", "AUTH-002", variant="guarded"),
    Fault(
        "no-challenge",
        "A refusal has no WWW-Authenticate.",
        ("AUTH-003",),
        variant="guarded",
        bindings=HTTP,
        packet=_no_challenge,
    ),
    Fault(
        "auth-status",
        "A refusal is HTTP 400.",
        ("AUTH-004",),
        variant="guarded",
        error=_unauthenticated(http=400, grpc="INVALID_ARGUMENT"),
    ),
    switch(
        "grpc-no-auth",
        "gRPC asks for no credentials.",
        "AUTH-001",
        "AUTH-009",
        variant="guarded",
        bindings=GRPC,
        by="no-auth",
    ),
    switch("no-scope", "Everybody sees every task.", "AUTH-006", "AUTH-007", "AUTH-008", variant="guarded"),
    switch("list-all-owners", "Everybody's tasks are listed.", "LIST-017", variant="guarded"),
    switch(
        "forbidden-task", "Another's task is forbidden, not unknown.", "AUTH-008", variant="guarded", by="forbidden"
    ),
    Fault(
        "extended-open",
        "The undeclared extended card is given out.",
        ("XCARD-001",),
        error=answering("UnsupportedOperation", "GetExtendedAgentCard", lambda p: {"name": "x"}),
    ),
    Fault(
        "extended-code",
        "An extended card that is not configured is an internal error.",
        ("XCARD-002",),
        variant="guarded",
        switches=frozenset({"no-extended"}),
        error=error_as(
            "ExtendedAgentCardNotConfigured", code=-32603, http=500, grpc="INTERNAL", kind="Internal", details=()
        ),
    ),
    Fault(
        "extended-thin",
        "The extended card is incomplete.",
        ("XCARD-004",),
        variant="guarded",
        reply=only("GetExtendedAgentCard", _thin),
    ),
    Fault(
        "extended-no-caching",
        "The extended card has no caching headers.",
        ("XCARD-005",),
        variant="guarded",
        bindings=REST,
        packet=lambda c, p: (
            headers(cache_control=None, etag=None)(c, p) if c.operation == "GetExtendedAgentCard" else p
        ),
    ),
    Fault(
        "extended-secret",
        "The extended card has a key in it.",
        ("XCARD-006",),
        variant="guarded",
        reply=only("GetExtendedAgentCard", _public_secret),
    ),
    switch("no-extension-check", "A required extension is not required.", "EXT-001", variant="strict"),
    switch("refuse-extensions", "Unknown extensions are refused.", "EXT-003"),
    switch("any-extension", "Every extension asked for is activated.", "EXT-004", bindings=HTTP),
    switch("one-tenant", "Tenants share their tasks.", "TEN-002", variant="tenant"),
    switch("no-tenant", "A request with a tenant is refused.", "TEN-001", variant="tenant"),
)
