"""A tiny shop agent to try the scenarios with: it prints its URL and serves until it is stopped.

It answers customers in words; told about tools, it uses them.
"""

from __future__ import annotations

import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from uuid import uuid4

RULES = (
    ("<available_tools>", {"tool_call": {"name": "get_status", "arguments": {"order": "B2"}}}),
    (r": open$", {"tool_call": {"name": "cancel", "arguments": {"order": "B2", "reason": "asked"}}}),
    (r": canceled$", "Order B2 is canceled."),
    ("A1", "Order A1 is on its way."),
    ("money back", "I am sorry. Why do you want to send it back?"),
    ("broken", "That is 20 dollars. Please confirm."),
    ("Yes", "It is refunded."),
)
"""What stands in a message, and what a shop would say then: words, or a call of a tool that it was told about."""


def answer(text: str) -> str:
    """Return what a shop would say."""
    said = next((said for seen, said in RULES if re.search(seen, text)), "You are welcome.")
    return said if isinstance(said, str) else json.dumps(said)


class Agent(BaseHTTPRequestHandler):
    """JSON-RPC of A2A 1.0, as little as it takes."""

    def do_GET(self) -> None:
        """Show the card."""
        self._send({
            "name": "shop", "description": "A shop.", "version": "1", "capabilities": {}, "skills": [],
            "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
            "supportedInterfaces": [{"url": URL, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        })  # fmt: skip

    def do_POST(self) -> None:
        """Answer a message."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "message" not in request["params"]:
            error = {"code": -32601, "message": "there is nothing here but messages"}
            return self._send({"jsonrpc": "2.0", "id": request["id"], "error": error})
        message = request["params"]["message"]
        text = "\n".join(part.get("text", "") for part in message["parts"])
        said = {
            "messageId": str(uuid4()), "role": "ROLE_AGENT", "contextId": message.get("contextId") or str(uuid4()),
            "parts": [{"text": answer(text)}],
        }  # fmt: skip
        self._send({"jsonrpc": "2.0", "id": request["id"], "result": {"message": said}})

    def _send(self, content: object) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Be silent."""


SERVER = ThreadingHTTPServer(("127.0.0.1", 0), Agent)
URL = f"http://127.0.0.1:{SERVER.server_address[1]}/"
if __name__ == "__main__":
    print(URL, flush=True)
    SERVER.serve_forever()
