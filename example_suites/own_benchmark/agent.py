"""A tiny A2A agent for the shop, over JSON-RPC with nothing but the standard library. Prints its URL and serves.

It cancels whatever it is told to, so that one of the three tasks is missed.
"""

from __future__ import annotations

import json
import re
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def answer(text: str) -> str:
    """Return what the agent says: a tool call as JSON for a request, words for a tool's result."""
    asked = re.search(r"(status of|cancel) order (\w+)", text)
    if asked is None:
        return f"The shop says: {text[-200:]}"
    tool = "cancel_order" if asked[1] == "cancel" else "get_status"
    return json.dumps({"tool_call": {"name": tool, "arguments": {"order": asked[2]}}})


class Agent(BaseHTTPRequestHandler):
    """Serves the card and one method of A2A 0.3."""

    def do_GET(self) -> None:
        """Answer with the agent card."""
        url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        card = {"name": "shop agent", "version": "1", "description": "knows orders", "url": url, "skills": []}
        modes = {"defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"]}
        self.reply(card | modes | {"protocolVersion": "0.3.0", "preferredTransport": "JSONRPC", "capabilities": {}})

    def do_POST(self) -> None:
        """Answer a message."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "message" not in request["params"]:
            error = {"code": -32601, "message": "there is nothing here but messages"}
            return self.reply({"jsonrpc": "2.0", "id": request["id"], "error": error})
        message = request["params"]["message"]
        text = "\n".join(part.get("text", "") for part in message["parts"])
        said = {"kind": "text", "text": answer(text)}
        result = {"kind": "message", "role": "agent", "messageId": uuid.uuid4().hex, "parts": [said]}
        result["contextId"] = message.get("contextId") or uuid.uuid4().hex
        self.reply({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def reply(self, body: dict[str, Any]) -> None:
        """Send a JSON body."""
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing of requests."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Agent)
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()
