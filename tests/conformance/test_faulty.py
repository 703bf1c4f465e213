"""The faulty agent: correct without a fault, and visibly different with each."""

from __future__ import annotations

import asyncio
import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import faulty
import grpc.aio
import httpx
import pytest
from a2a.types import a2a_pb2, a2a_pb2_grpc
from faulty import catalogue
from faulty.card import EXTENSION, TENANTS
from faulty.catalogue import FAULTS, describe, find_fault
from faulty.fault import NONE, VARIANTS, Fault
from faulty.serving import FaultyOptions, FaultyServer
from faulty_server import TOKENS, Running, serve_faulty, start_faulty
from google.protobuf.json_format import MessageToDict, ParseDict
from one_test import in_one_test

from pytest_a2a_bench.conformance.catalogue import load_requirements
from pytest_a2a_bench.errors import ConfigurationError

PACKAGE = Path(faulty.__file__).parent
CATALOGUE = {requirement.id for version in ("1.0", "0.3") for requirement in load_requirements(version)}


WORDS = ("name", "says", "breaks", "variant", "version", "bindings")
HOOKS = [f.name for f in dataclasses.fields(Fault) if f.name not in WORDS]


class TestCatalogue:
    @in_one_test("fault", FAULTS.values(), ids=lambda fault: fault.name)
    def test_each_puts_its_hand_in_somewhere(self, fault: Fault) -> None:
        assert any(getattr(fault, hook) != getattr(NONE, hook) for hook in HOOKS)

    def test_each_switch_and_each_waiver_is_known_to_the_agent(self) -> None:
        code = "".join(path.read_text(encoding="utf-8") for path in PACKAGE.glob("*.py") if "faults_" not in path.name)
        names = {name for fault in FAULTS.values() for name in (*fault.switches, *fault.waive)}

        assert {name for name in names if f'"{name}"' not in code} <= {"no-url"}  # that one is put together

    def test_every_behaviour_has_its_words(self) -> None:
        assert sorted(catalogue._DOES.keys() - FAULTS.keys()) == []

    def test_there_are_many_and_each_breaks_requirements_that_exist(self) -> None:
        assert len(FAULTS) >= 80
        for fault in FAULTS.values():
            assert fault.breaks, fault.name
            assert set(fault.breaks) <= CATALOGUE, fault.name
            assert fault.variant in VARIANTS

    def test_most_requirements_that_an_agent_can_break_are_broken_by_one(self) -> None:
        broken = {id for fault in FAULTS.values() for id in fault.breaks}

        assert len(broken) > 0.8 * len(CATALOGUE)

    def test_an_unknown_fault_names_those_that_are_near(self) -> None:
        with pytest.raises(ConfigurationError, match="did you mean card-no-tags"):
            find_fault("card-no-tag")

    def test_the_command_line_lists_them(self) -> None:
        listed = subprocess.run([sys.executable, PACKAGE, "--list-faults"], capture_output=True, text=True, check=True)

        assert listed.stdout.strip() == describe()

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            (FaultyOptions("list-no-total", protocol="0.3"), r"is one of A2A 1\.0, and --protocol is 0\.3"),
            (FaultyOptions("old-no-kind", protocol="1.0"), r"is one of A2A 0\.3, and --protocol is 1\.0"),
            (FaultyOptions(variant="tenant", protocol="0.3"), r"0\.3 has no tenants"),
            (FaultyOptions(variant="guarded"), "--tokens"),
        ],
    )
    def test_a_version_and_what_it_does_not_have_are_refused(self, options: FaultyOptions, said: str) -> None:
        with pytest.raises(ConfigurationError, match=said):
            FaultyServer(options, "http://127.0.0.1:1/", None)


def test_it_is_served_as_a_process_with_its_fault() -> None:
    with start_faulty("card-no-tags") as agent:
        card = httpx.get(agent.card_url, trust_env=False).json()

    assert "tags" not in card["skills"][0]


def message(text: str = "hello", **members: Any) -> dict[str, Any]:
    return {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": text}], **members}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_correct_agent_answers_every_operation_on_every_binding(variant: str) -> None:
    async def converse() -> None:
        async with serve_faulty(None, variant, step=0.01) as running, httpx.AsyncClient(trust_env=False) as client:
            headers = {"A2A-Version": "1.0", "Authorization": f"Bearer {TOKENS[0]}", "A2A-Extensions": EXTENSION}
            tenant = TENANTS[0] if variant == "tenant" else ""
            rpc = await client.post(
                running.url,
                json={
                    "jsonrpc": "2.0",
                    "id": 1,
                    "method": "SendMessage",
                    "params": {"tenant": tenant, "message": message()},
                },
                headers=headers,
            )
            task = rpc.json()["result"]["task"]
            prefix = f"{running.url}rest/{tenant + '/' if tenant else ''}"
            rest = await client.get(f"{prefix}tasks/{task['id']}", headers=headers)
            same = await _over_grpc(running, "GetTask", {"id": task["id"], "tenant": tenant})

            assert task["status"]["state"] == "TASK_STATE_COMPLETED"
            assert rest.json() == task
            assert same == task

    asyncio.run(converse())


async def _over_grpc(running: Running, operation: str, params: dict[str, Any]) -> dict[str, Any]:
    interfaces = running.server.agent.card["supportedInterfaces"]
    url = next(i["url"] for i in interfaces if i["protocolBinding"] == "GRPC")
    metadata = (
        ("a2a-version", "1.0"),
        ("authorization", f"Bearer {TOKENS[0]}"),
        ("a2a-extensions", EXTENSION),
    )
    async with grpc.aio.insecure_channel(url.partition("//")[2]) as channel:
        stub: Any = a2a_pb2_grpc.A2AServiceStub(channel)  # type: ignore[no-untyped-call]
        request: Any = ParseDict(params, getattr(a2a_pb2, f"{operation}Request")())
        answer: dict[str, Any] = MessageToDict(await getattr(stub, operation)(request, metadata=metadata))
        return answer
