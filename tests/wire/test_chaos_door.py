from __future__ import annotations

import asyncio
import socket

import pytest

from pytest_a2a_bench.chaos.door import Connection, Door
from pytest_a2a_bench.errors import ConfigurationError


async def greet(connection: Connection) -> None:
    await connection.write(b"hello")


async def greeting(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        return await reader.read()
    finally:
        writer.close()


def test_a_port_in_use_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"):
            Door("127.0.0.1", port, greet)


def test_a_shut_door_refuses_and_its_port_stays_its_own() -> None:
    async def run() -> None:
        door = Door("127.0.0.1", 0, greet)
        try:
            for _ in range(3):
                with pytest.raises(ConnectionRefusedError):
                    await greeting(door.port)
                with socket.socket() as other, pytest.raises(OSError, match="in use"):
                    other.bind(("127.0.0.1", door.port))
                await door.open()
                assert await greeting(door.port) == b"hello"
                door.shut()
        finally:
            await door.close()

    asyncio.run(run())


def test_a_later_refusal_takes_the_place_of_an_earlier_one() -> None:
    async def run() -> None:
        door = Door("127.0.0.1", 0, greet)
        try:
            await door.open()
            door.refuse_for(0)
            door.refuse_for(3600)
            await asyncio.sleep(0.05)
            with pytest.raises(ConnectionRefusedError):
                await greeting(door.port)
        finally:
            await door.close()

    asyncio.run(run())


def test_a_port_can_be_had_again_at_once() -> None:
    async def run() -> None:
        first = Door("127.0.0.1", 0, greet)
        await first.open()
        assert await greeting(first.port) == b"hello"  # and its end of that connection lingers
        await first.close()
        second = Door("127.0.0.1", first.port, greet)
        await second.open()
        assert await greeting(second.port) == b"hello"
        await second.close()

    asyncio.run(run())
