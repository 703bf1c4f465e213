"""A LangGraph graph on LangGraph's own server (langgraph dev); its node is a script."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from peer_alone import serve_itself


def answer(state: MessagesState) -> dict[str, Any]:
    return {"messages": [AIMessage(f"You said: {state['messages'][-1].text}")]}


graph = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer").add_edge("answer", END).compile()


def run(host: str, port: int) -> None:
    from langgraph_api.cli import run_server

    # It keeps its files in the current directory.
    os.chdir(tempfile.mkdtemp())
    sys.argv = sys.argv[:1]
    run_server(host, port, graphs={"peer": f"{Path(__file__)}:graph"}, env={"LANGSMITH_TRACING": "false"})


if __name__ == "__main__":
    # An assistant's id is made of the graph's name, so that it is the same everywhere.
    from uuid import UUID, uuid5

    assistant = uuid5(UUID("6ba7b821-9dad-11d1-80b4-00c04fd430c8"), "peer")
    serve_itself(run, f"/a2a/{assistant}/.well-known/agent-card.json")
