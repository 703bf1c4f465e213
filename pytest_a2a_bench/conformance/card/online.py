"""Whether an agent keeps what its card says: a few cheap requests to each interface that the card declares."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from pytest_a2a_bench.a2a.auth import AuthParts, authentication, may_receive
from pytest_a2a_bench.a2a.card import parse_card
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.a2a.loop import run
from pytest_a2a_bench.conformance.card.document import Ledger, Path, as_list, as_object, as_text, objects, show
from pytest_a2a_bench.conformance.card.judge import card_versions
from pytest_a2a_bench.conformance.card.shared import CORE_BINDINGS
from pytest_a2a_bench.conformance.finding import Finding
from pytest_a2a_bench.conformance.target import Target
from pytest_a2a_bench.conformance.wire.exchange import Limits
from pytest_a2a_bench.conformance.wire.http import open_wire
from pytest_a2a_bench.conformance.wire.reply import CannotExpressError, Wire, WireReply, WireRequest
from pytest_a2a_bench.errors import A2ABenchError, MissingExtraError

# -- what the card declares --


@dataclass(frozen=True, slots=True)
class DeclaredInterface:
    """One interface and what the card declares of it."""

    path: Path
    url: str
    binding: str
    version: str
    tenant: str
    card: Mapping[str, Any]

    @property
    def is_secured(self) -> bool:
        """Whether every request needs credentials."""
        name = "securityRequirements" if self.version == "1.0" else "security"
        alternatives = [as_object(r) for r in as_list(self.card.get(name))]
        if name == "securityRequirements":
            alternatives = [as_object(r.get("schemes")) for r in alternatives]
        return bool(alternatives) and all(alternatives)

    def name_task(self, member: str, task: str) -> Mapping[str, str]:
        """Return the parameters that name a task; gRPC's are resource names in 0.3."""
        if (self.version, self.binding) != ("0.3", "GRPC"):
            return {member: task}
        return {"parent" if member == "taskId" else "name": f"tasks/{task}"}

    def declares(self, capability: str) -> bool:
        """Tell whether a capability is declared."""
        if capability == "extendedAgentCard" and self.version == "0.3":
            return self.card.get("supportsAuthenticatedExtendedCard") is True
        return as_object(self.card.get("capabilities")).get(capability) is True

    def message(self) -> Mapping[str, Any]:
        """Return a harmless message in the version's own form."""
        text = "ping"
        common = {"messageId": str(uuid.uuid4())}
        if self.version == "1.0":
            return {**common, "role": "ROLE_USER", "parts": [{"text": text}]}
        if self.binding == "JSONRPC":
            return {**common, "kind": "message", "role": "user", "parts": [{"kind": "text", "text": text}]}
        return {**common, "role": "ROLE_USER", "content": [{"text": text}]}


def declared_interfaces(card: Mapping[str, Any]) -> list[DeclaredInterface]:
    """Return the interfaces of a card that can be asked; a card for both versions lists 0.3's among 1.0's."""
    found: list[DeclaredInterface] = []

    def take(path: Path, url: Any, binding: Any, version: str, tenant: Any = "") -> None:
        # A card for both versions names some interfaces twice.
        known = [p for p in found if (p.url, p.binding, p.version) == (url, binding, version)]
        if as_text(url) and binding in CORE_BINDINGS and version in ("1.0", "0.3") and not known:
            found.append(DeclaredInterface(path, url, binding, version, as_text(tenant), card))

    for i, entry in objects(card.get("supportedInterfaces")):
        # Only major and minor are compared (section 3.6): 1.0.1 is 1.0.
        version = ".".join(as_text(entry.get("protocolVersion")).split(".")[:2])
        take(("supportedInterfaces", i), entry.get("url"), entry.get("protocolBinding"), version, entry.get("tenant"))
    if "0.3" in card_versions(card):
        # 0.3's schema has this default.
        take(("url",), card.get("url"), card.get("preferredTransport", "JSONRPC"), "0.3")
        for i, entry in objects(card.get("additionalInterfaces")):
            take(("additionalInterfaces", i), entry.get("url"), entry.get("transport"), "0.3")
    return found


async def with_spoken_versions(raw: Mapping[str, Any], config: ClientConfig, timeout: float) -> Mapping[str, Any]:
    """Return a card whose interfaces without ``protocolVersion`` have the one that is spoken there.

    That the card lacks it is a finding; what is behind the interface is judged by what it is all the same.
    """
    entries = list(as_list(raw.get("supportedInterfaces")))
    silent = [i for i, e in objects(entries) if not e.get("protocolVersion")] if not raw.get("protocolVersion") else []
    for i in silent[:_MOST_INTERFACES]:
        entry = as_object(entries[i])
        if as_text(entry.get("url")) and entry.get("protocolBinding") in CORE_BINDINGS:
            version = await _spoken_version(entry, raw, config, timeout)
            entries[i] = {**entry, "protocolVersion": version} if version else entry
    return {**raw, "supportedInterfaces": entries} if silent else raw


async def _spoken_version(
    entry: Mapping[str, Any], raw: Mapping[str, Any], config: ClientConfig, timeout: float
) -> str:
    # 1.0 first: a server that speaks both answers without the header as one of 0.3.
    for version in ("1.0", "0.3"):
        interface = DeclaredInterface(
            (), as_text(entry.get("url")), entry["protocolBinding"], version, as_text(entry.get("tenant")), raw
        )
        try:
            async with _connect(interface, raw, config, timeout) as probe:
                reply = await probe.ask("GetTask", interface.name_task("id", _nobody()))
        except (A2ABenchError, CannotExpressError, ValueError, OSError):
            continue
        if _refuses(reply, "TaskNotFoundError") and not _is_plain_404(reply):
            return version
    return ""


# -- asking --


# Each costs several requests of a second or so.
_MOST_INTERFACES = 12
# Far below the judge's usual limits: only the first event of a stream is looked at.
_LIMITS = Limits(body_bytes=2_000_000, events=20, stream_bytes=2_000_000)
_REFUSED_HTTP = (401, 403)
_REFUSED_GRPC = ("UNAUTHENTICATED", "PERMISSION_DENIED")


@dataclass(slots=True)
class Probe:
    """Asks one interface.

    :param auth: credentials, empty where there are none or the interface may not have them.
    """

    interface: DeclaredInterface
    wire: Wire
    auth: AuthParts
    timeout: float
    ledger: Ledger = field(default_factory=Ledger)

    async def ask(
        self, operation: str, params: Mapping[str, Any], *, auth: bool = True, stream: bool = False
    ) -> WireReply:
        """Send one request; a stream is read up to its first event."""
        # 0.3 knows no such header.
        header = "1.0" if self.interface.version == "1.0" else None
        return await self.wire.call(
            WireRequest(
                operation,
                params,
                version_header=header,
                timeout=self.timeout,
                stream=stream,
                until=(lambda _: True) if stream else None,
                auth=auth,
            )
        )

    def tell(self, rule: str, old_rule: str, found: str, fix: str, reply: WireReply) -> None:
        """Write a finding down under the id that the version has for it; an empty id has none."""
        name = rule if self.interface.version == "1.0" else old_rule
        where = f"{self.interface.binding} {self.interface.version} at {show(self.interface.url)}"
        if name:
            self.ledger.add(name, self.interface.path, f"{where}: {found}", fix=fix, exchanges=(reply.exchange,))


def check_online(
    raw: Any, endpoint: str, *, config: ClientConfig | None = None, timeout: float = 10.0
) -> list[Finding]:
    """Ask an agent whether its card is true; see :func:`check_online_async`."""
    return run(check_online_async(raw, endpoint, config=config, timeout=timeout))


async def check_online_async(
    raw: Any, endpoint: str, *, config: ClientConfig | None = None, timeout: float = 10.0
) -> list[Finding]:
    """Ask every interface that a card names whether what the card says is true.

    Interfaces answer in the binding and version declared; what is declared exists, what is not is refused, and
    security is enforced. A task that a probe starts is cancelled.

    :param raw: the card.
    :param endpoint: where the card came from; credentials go to its origin only.
    :param config: gives credentials, certificates and proxies.
    :param timeout: seconds for one request.
    """
    # The first ones are the preferred ones.
    asked = declared_interfaces(as_object(raw))[:_MOST_INTERFACES]
    config = config or ClientConfig(endpoint)
    ledgers = await asyncio.gather(*(_check(p, raw, config, timeout) for p in asked))
    return [finding for ledger in ledgers for finding in ledger.findings()]


async def _check(interface: DeclaredInterface, raw: Any, config: ClientConfig, timeout: float) -> Ledger:
    ledger = Ledger()
    rule = "CARD-007" if interface.version == "1.0" else "V03-CARD-022"
    try:
        async with _connect(interface, raw, config, timeout) as probe:
            probe.ledger = ledger
            await _ask_everything(probe)
    # What is not installed here is no defect of the card.
    except (MissingExtraError, CannotExpressError) as error:
        ledger.add(
            rule, interface.path, f"{interface.binding} at {show(interface.url)} is not asked: {error}", severity="note"
        )
    except (A2ABenchError, ValueError, OSError) as error:
        ledger.add(rule, interface.path, f"{show(interface.url)} cannot be asked ({error})", fix="correct the URL")
    return ledger


@asynccontextmanager
# Credentials go to the endpoint's own origin, whatever addresses the card names.
async def _connect(
    interface: DeclaredInterface, raw: Any, config: ClientConfig, timeout: float
) -> AsyncIterator[Probe]:
    auth, network = AuthParts(), config.network.without_certificate()
    if may_receive(interface.url, config):
        network = config.network
        auth = authentication(config, parse_card(raw, config.endpoint)) if config.has_credentials else auth
    target = Target(
        config.endpoint,
        raw,
        interface.version,
        interface.binding,
        interface.url,
        interface.tenant,
        network=network,
        auth=auth,
        secrets=config.secrets,
    )
    wire = open_wire(target, _LIMITS)
    try:
        yield Probe(interface, wire, auth, timeout)
    finally:
        await wire.close()


async def _ask_everything(probe: Probe) -> None:
    # Where nobody speaks the binding, every further question would find the same.
    if not await _check_speaks(probe):
        return
    can_authenticate = bool(probe.auth) or not probe.interface.is_secured
    await _check_secured(probe)
    if can_authenticate:
        # Not before it is known that it speaks: what these find would be misread.
        await asyncio.gather(_check_streaming(probe), _check_push(probe), _check_extended(probe))


async def _check_speaks(probe: Probe) -> bool:
    """Ask for a task that does not exist: only an interface of this binding and version knows how to say so."""
    reply = await probe.ask("GetTask", probe.interface.name_task("id", _nobody()))
    if _refuses(reply, "TaskNotFoundError") and not _is_plain_404(reply):
        return True
    if _is_refusal(reply):
        # Without credentials a refusal is what the card announced.
        if probe.interface.is_secured and not probe.auth:
            return True
        found = f"GetTask is refused ({reply.describe()}), and the card requires no credentials"
        if probe.interface.is_secured:
            found = f"the credentials given are refused ({reply.describe()})"
        probe.tell("CARD-007", "V03-CARD-022", found, "declare the security that is asked for", reply)
        return False
    found = f"GetTask for an unknown task gets {reply.describe()}, not TaskNotFoundError"
    probe.tell("CARD-007", "V03-CARD-022", found, "serve the interface there, or correct the card", reply)
    return False


async def _check_secured(probe: Probe) -> None:
    if not probe.interface.is_secured:
        return
    reply = await probe.ask("GetTask", probe.interface.name_task("id", _nobody()), auth=False)
    if not _is_refusal(reply):
        found = f"without credentials, GetTask gets {reply.describe()}; the card requires them"
        probe.tell("AUTH-001", "V03-AUTH-001", found, "refuse requests without credentials with 401", reply)


async def _check_streaming(probe: Probe) -> None:
    declared = probe.interface.declares("streaming")
    # 0.3's proto file calls it request.
    member = "request" if (probe.interface.version, probe.interface.binding) == ("0.3", "GRPC") else "message"
    reply = await probe.ask("SendStreamingMessage", {member: probe.interface.message()}, stream=True)
    if declared and not reply.events:
        found = f"streaming is declared, and SendStreamingMessage gets {reply.describe()}"
        probe.tell("STREAM-001", "V03-STREAM-001", found, "stream, or declare streaming false", reply)
    elif not declared and not (reply.error is not None and _refuses(reply, "UnsupportedOperationError")):
        found = f"streaming is not declared, and SendStreamingMessage gets {reply.describe()}"
        probe.tell("STREAM-012", "V03-STREAM-004", found, "answer UnsupportedOperationError, or declare it", reply)
    await _cancel(probe, reply)


async def _check_push(probe: Probe) -> None:
    is_rpc03 = (probe.interface.version, probe.interface.binding) == ("0.3", "JSONRPC")
    params = probe.interface.name_task("id" if is_rpc03 else "taskId", _nobody())
    reply = await probe.ask("ListTaskPushNotificationConfigs", params)
    absent = _refuses(reply, "PushNotificationNotSupportedError") or _refuses(reply, "MethodNotFoundError")
    if probe.interface.declares("pushNotifications"):
        if absent:
            found = f"push notifications are declared, and listing their configurations gets {reply.describe()}"
            probe.tell("PUSH-004", "V03-PUSH-001", found, "serve them, or declare pushNotifications false", reply)
    # 0.3 does not say what to answer then.
    elif not _refuses(reply, "PushNotificationNotSupportedError") and probe.interface.version == "1.0":
        found = f"push notifications are not declared, and listing their configurations gets {reply.describe()}"
        probe.tell("PUSH-008", "", found, "answer PushNotificationNotSupportedError, or declare them", reply)


async def _check_extended(probe: Probe) -> None:
    declared = probe.interface.declares("extendedAgentCard")
    reply = await probe.ask("GetExtendedAgentCard", {}, auth=not declared)
    if declared and not _is_refusal(reply):
        found = f"without credentials, GetExtendedAgentCard gets {reply.describe()}"
        fix = "refuse it with 401, or do not declare an extended card"
        # Declared, and not configured: that is an error of its own, and no missing guard.
        if _refuses(reply, "ExtendedAgentCardNotConfiguredError"):
            return
        probe.tell("XCARD-003", "V03-XCARD-001", found, fix, reply)
    elif not declared and not _refuses(reply, "UnsupportedOperationError") and probe.interface.version == "1.0":
        found = f"no extended card is declared, and GetExtendedAgentCard gets {reply.describe()}"
        probe.tell("XCARD-001", "", found, "answer UnsupportedOperationError", reply)


async def _cancel(probe: Probe, reply: WireReply) -> None:
    """Cancel the task that a stream began, whatever comes of it."""
    for event in reply.events:
        body = as_object(event)
        # A task's id is in different members of different events.
        for inner in (as_object(body.get("task")), as_object(body.get("statusUpdate")), body):
            # A message has a role, and an id that is no task's.
            task = as_text(inner.get("taskId")) or as_text(inner.get("id"))
            if task and inner.get("role") is None:
                await probe.ask("CancelTask", probe.interface.name_task("id", task))
                return


def _nobody() -> str:
    return str(uuid.uuid4())


def _refuses(reply: WireReply, name: str) -> bool:
    return reply.error is not None and reply.error.may_be(name)


def _is_plain_404(reply: WireReply) -> bool:
    """Tell whether a 404 is any web server's for a path that it does not have, rather than an A2A error."""
    # JSON-RPC has its own words for it, which no web server uses by chance.
    if reply.exchange.binding != "HTTP+JSON":
        return False
    return not {"error", "code", "status", "type", "title"} & set(as_object(reply.document))


def _is_refusal(reply: WireReply) -> bool:
    if reply.status in _REFUSED_HTTP and reply.exchange.binding != "GRPC":
        return True
    return reply.error is not None and reply.error.grpc_status in _REFUSED_GRPC
