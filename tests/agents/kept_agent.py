"""An agent for a controller to keep: it listens where AGENT_PORT says, and does what its arguments say.

    python kept_agent.py [WORD...]

``crash`` ends with 3 at once, ``slow:N`` begins to listen after N seconds, ``deaf`` ignores SIGTERM, ``daemon`` leaves
a process in a session of its own, ``loud`` writes a lot, ``shy`` does not answer the first request. It answers GET
/echo with what it was asked, POST /echo with the body, GET /sse with three events of which the second waits for /go,
GET /hang never, and GET /big with 8 MiB.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import ThreadingHTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # which an isolated interpreter leaves out
from threaded_http import Handler

GO = threading.Event()
PORT = os.environ.get("AGENT_PORT", "0")
CARD = {
    "name": "kept",
    "description": "An agent that is kept.",
    "version": "1",
    "supportedInterfaces": [
        {"url": f"http://127.0.0.1:{PORT}/rpc?a=1", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
        {"url": f"127.0.0.1:{PORT}", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
    ],
    "signatures": [{"protected": "x", "signature": "y"}],
}


class Kept(Handler):
    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if "shy" in sys.argv and not GO.is_set():
            GO.set()
            self.close_connection = True
        elif path == "/.well-known/agent-card.json":
            self.answer(200, json.dumps(CARD).encode())
        elif path == "/sse":
            self._stream()
        elif path == "/hang":
            print("hanging", flush=True)
            threading.Event().wait()
        elif path == "/go":
            GO.set()
            self.answer(200, b"gone", "text/plain")
        elif path == "/big":
            self.answer(200, b"x" * (8 << 20), "application/octet-stream")
        elif path == "/missing":
            self.send_error(404, "not here")
        else:
            self._echo()

    def do_POST(self) -> None:
        self._echo()

    do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_POST

    def _echo(self) -> None:
        body, headers = self.body().decode("latin-1"), dict(self.headers.items())
        message = {"method": self.command, "path": self.path, "body": body, "headers": headers}
        self.answer(200, json.dumps(message).encode(), headers={"X-Twice": "1", "x-twice": "2"})

    def _stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number in range(3):
            if number == 1:
                GO.wait(60)
            event = f"data: {number}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")


class Server(ThreadingHTTPServer):
    request_queue_size = 128


def main(words: list[str]) -> int:
    print(f"listening on {PORT} for {os.environ.get('AGENT_URL')}", flush=True)
    if "loud" in words:
        for number in range(20_000):
            print(f"line {number} {'=' * 40}")
        sys.stdout.flush()
    if "tell" in words:
        print("the key is", os.environ["OPENAI_API_KEY"], file=sys.stderr, flush=True)
    if "deaf" in words:
        signal.signal(signal.SIGTERM, lambda *_: print("deaf", flush=True))
    if "daemon" in words:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        print(f"daemon {child.pid}", flush=True)
    if "crash" in words:
        print("cannot go on", file=sys.stderr)
        return 3
    time.sleep(sum(float(word.partition(":")[2]) for word in words if word.startswith("slow:")))
    server = Server((os.environ.get("HOST", "127.0.0.1"), int(PORT)), Kept)
    server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
