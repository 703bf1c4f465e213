"""An assessor for a launch to ask: it answers as its arguments say, over A2A 0.3 JSON-RPC, with the standard library.

    python scripted_assessor.py PORT [WORD...]

``good`` completes with a result, ``errors`` with one that could not evaluate a trial, ``empty`` without any, ``fail``
fails, ``reject`` rejects, ``break`` ends its stream in the middle and has the result when it is asked for the task,
``wait`` never ends, ``silent`` offers no streaming, ``text`` writes its result as text. It writes each request, and
"canceled", on a line of its stdout.
"""

import json
import sys
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # which an isolated interpreter leaves out
from threaded_http import Handler

PORT = int(sys.argv[1])
WORDS = sys.argv[2:]
RESULT = {
    "domain": "airline",
    "score": 1.0,
    "max_score": 2,
    "pass_rate": 50.0,
    "task_rewards": {"0": 1.0, "1": 0.0},
    "time_used": 1.5,
    "errors": {"count": 1 if "errors" in WORDS else 0},
}
CARD = {
    "name": "scripted assessor",
    "description": "Answers as it is told.",
    "url": f"http://127.0.0.1:{PORT}/",
    "version": "1",
    "protocolVersion": "0.3.0",
    "preferredTransport": "JSONRPC",
    "capabilities": {"streaming": "silent" not in WORDS},
    "defaultInputModes": ["text"],
    "defaultOutputModes": ["text"],
    "skills": [],
}
STATE = next((s for w, s in (("fail", "failed"), ("reject", "rejected")) if w in WORDS), "completed")


def status(state: str, text: str = "") -> dict[str, Any]:
    said = {"role": "agent", "kind": "message", "messageId": "m", "parts": [{"kind": "text", "text": text}]}
    return {"state": state, **({"message": said} if text else {})}


def artifacts() -> list[dict[str, Any]]:
    if "empty" in WORDS or STATE != "completed":
        return []
    data = {"kind": "text", "text": json.dumps(RESULT)} if "text" in WORDS else {"kind": "data", "data": RESULT}
    return [{"artifactId": "r", "name": "Result", "parts": [{"kind": "text", "text": "airline: 1 of 2"}, data]}]


def task(state: str, text: str = "") -> dict[str, Any]:
    done = artifacts() if state == "completed" else []
    return {"kind": "task", "id": "t1", "contextId": "c1", "status": status(state, text), "artifacts": done}


def update(state: str, text: str = "") -> dict[str, Any]:
    final = state != "working"
    return {"kind": "status-update", "taskId": "t1", "contextId": "c1", "status": status(state, text), "final": final}


class Assessor(Handler):
    def do_GET(self) -> None:
        found = self.path in ("/.well-known/agent-card.json", "/.well-known/agent.json")
        self.answer(200 if found else 404, json.dumps(CARD).encode())

    def do_POST(self) -> None:
        asked = json.loads(self.body())
        self.number = asked["id"]
        if asked["method"] in ("message/stream", "message/send"):
            print(asked["params"]["message"]["parts"][0]["text"], flush=True)
        if asked["method"] == "message/stream":
            self._stream()
        elif asked["method"] == "tasks/cancel":
            print("canceled", flush=True)
            self._result(task("canceled"))
        else:
            self._result(task(STATE, "why it ended" if STATE != "completed" else ""))

    def _stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self._event(task("submitted"))
        self._event(update("working", "0 of 2 done"))
        if "wait" in WORDS:
            threading.Event().wait()
        if "break" not in WORDS:
            for artifact in artifacts():
                self._event({"kind": "artifact-update", "taskId": "t1", "contextId": "c1", "artifact": artifact})
            self._event(update(STATE, "why it ended" if STATE != "completed" else ""))
        self.close_connection = True

    def _enveloped(self, result: dict[str, Any]) -> str:
        return json.dumps({"jsonrpc": "2.0", "id": self.number, "result": result})

    def _event(self, result: dict[str, Any]) -> None:
        self.wfile.write(f"data: {self._enveloped(result)}\n\n".encode())
        self.wfile.flush()

    def _result(self, result: dict[str, Any]) -> None:
        self.answer(200, self._enveloped(result).encode())


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", PORT), Assessor).serve_forever()
