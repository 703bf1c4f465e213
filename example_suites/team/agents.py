"""A team of two: the desk, which is under test, and Ann, who writes queries for it. It serves until it is stopped.

The desk understands questions and counts; Ann knows the org's fields. Neither can do the other's part.
"""

from __future__ import annotations

import json
import re
import threading
from ast import literal_eval
from collections import Counter
from collections.abc import Callable
from datetime import date, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from uuid import uuid4

NUMBERS = {name: n for n, name in enumerate("one two three four five six seven eight nine ten".split(), 1)}
SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "winter": 12}


def add_months(day: date, months: int) -> date:
    """Return the day so many months later."""
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    for back in range(4):
        try:
            return date(year, month + 1, day.day - back)
        except ValueError:
            continue
    raise ValueError(day)


def period_of(question: str, today: date) -> tuple[date, date]:
    """Return the first day of the period that a question names, and the day after its last."""
    if found := re.search(r"past (\w+) (week|month|quarter)s?", question):
        number = NUMBERS.get(found[1]) or int(found[1])
        if found[2] == "week":
            return today - timedelta(weeks=number), today
        return add_months(today, -number * (3 if found[2] == "quarter" else 1)), today
    if found := re.search(r"Q(\d) (?:of )?(\d{4})", question):
        first = date(int(found[2]), 3 * int(found[1]) - 2, 1)
    else:
        season, year = re.findall(r"(spring|summer|autumn|winter) of (\d{4})", question)[0]
        first = date(int(year), SEASONS[season], 1)
    return first, add_months(first, 3)


def desk(text: str) -> str:
    """Return the next action of the desk: ask Ann, run what she wrote, count what was found."""
    if found := re.search(r"Tool Result \(ask_agent\): (SELECT .*)", text):
        return call("execute", query=found[1])
    if found := re.search(r"Tool Result \(execute\): [^\[]*(\[.*\])", text):
        months = Counter(date.fromisoformat(row["CreatedDate"][:10]).strftime("%B") for row in literal_eval(found[1]))
        return call("respond", answer=json.dumps({"answer": [name for name, _ in months.most_common(1)]}))
    question = text.rpartition("User: ")[2]
    today = re.findall(r"Today's date: (\S+)", text)
    product = re.findall(r"product Id is (\w+)", question)
    if not today or not product:
        return call("respond", answer=json.dumps({"answer": []}))
    begin, end = period_of(question, date.fromisoformat(today[0]))
    wanted = (
        f"Which query finds when cases about the product {product[0]} were created from {begin} until before {end}?"
    )
    return call("ask_agent", name="ann", question=f"{wanted} Merged cases do not count.")


def ann(text: str) -> str:
    """Return Ann's query."""
    product, begin, end = re.findall(r"product (\w+) .* from (\S+) until before (\S+)\?", text)[0]
    return (
        f"SELECT CreatedDate FROM Case WHERE OrderItemId__r.Product2Id = '{product}' AND Status != 'Merged' "
        f"AND CreatedDate >= {begin}T00:00:00Z AND CreatedDate < {end}T00:00:00Z"
    )


def call(tool: str, **arguments: str) -> str:
    """Write a call of a tool."""
    return json.dumps({"tool_call": {"name": tool, "arguments": arguments}})


def serve(name: str, answer: Callable[[str], str], port: int) -> ThreadingHTTPServer:
    """Return a server that speaks JSON-RPC of A2A 1.0, as little as it takes."""
    url = f"http://127.0.0.1:{port}/"

    class Agent(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send({
                "name": name, "description": name, "version": "1", "capabilities": {}, "skills": [],
                "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
                "supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
            })  # fmt: skip

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if "message" not in request["params"]:
                error = {"code": -32001, "message": "there are no tasks here"}
                return self.send({"jsonrpc": "2.0", "id": request["id"], "error": error})
            message = request["params"]["message"]
            said = answer("\n".join(part.get("text", "") for part in message["parts"]))
            context = message.get("contextId") or str(uuid4())
            reply = {"messageId": str(uuid4()), "role": "ROLE_AGENT", "contextId": context, "parts": [{"text": said}]}
            return self.send({"jsonrpc": "2.0", "id": request["id"], "result": {"message": reply}})

        def send(self, content: object) -> None:
            body = json.dumps(content).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return ThreadingHTTPServer(("127.0.0.1", port), Agent)


if __name__ == "__main__":
    threading.Thread(target=serve("ann", ann, 9302).serve_forever, daemon=True).start()
    served = serve("desk", desk, 9301)
    print("the desk: http://127.0.0.1:9301/, ann: http://127.0.0.1:9302/", flush=True)
    served.serve_forever()
