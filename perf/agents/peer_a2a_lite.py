"""An agent on a2a-lite: one skill, which answers what it is told."""

from __future__ import annotations

import asyncio
import urllib.parse
from typing import Any

from a2a_lite import Agent
from peer_brain import serve


def make_app(url: str) -> Any:
    agent = Agent(name="peer on a2a-lite", description="Talks.", version="1", url=url)

    @agent.skill("talk", description="Talks.", tags=["test"], streaming=True)
    async def talk(message: str) -> Any:
        for word in ("You said:", message):
            await asyncio.sleep(0)
            yield word

    parts = urllib.parse.urlsplit(url)
    return agent._build_app(parts.hostname, parts.port)


if __name__ == "__main__":
    serve(make_app)
