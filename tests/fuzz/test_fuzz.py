"""A seeded fuzzer over everything that reads what others wrote: agents' replies, cards, queries, streams, stored files.

``A2A_BENCH_FUZZ_SECONDS`` is the time for each target (20), ``A2A_BENCH_FUZZ_INPUTS`` the most inputs of each, and
``A2A_BENCH_FUZZ_SEED`` another series of inputs. A failure names the seed and the number of its input;
nothing else is needed to make it again.
"""

import copy
import json
import os
import random
import time
import tomllib
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import cards
import pytest
from small_org import open_small_org
from soql_fuzz import hostile_queries
from stored_files import write_files

from pytest_a2a_bench import dialects
from pytest_a2a_bench.a2a.bodies import SSEParser, parse_json
from pytest_a2a_bench.a2a.card import choose_interface, load_card
from pytest_a2a_bench.a2a.codec import read_event, read_task
from pytest_a2a_bench.benchmarks.crmarena.org import OrgError
from pytest_a2a_bench.conformance.card.judge import check_card
from pytest_a2a_bench.errors import A2ABenchError, CardError, ProtocolError
from pytest_a2a_bench.model import AgentSaid, Part, ToolCall, ToolSpec
from pytest_a2a_bench.schemas import FORMS

ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 1e308, 10**400, "", " ", "x" * 300, "\0", "\ud800", "\u202e", "é😀", "null", "NaN",
    "2026-02-30", "../../etc/passwd", "javascript:alert(1)", "http://[::1", "http://a:99999/", "//b", [], [[]], {},
    {"": {}},
    {"type": "object", "properties": None}, ["a", 1, None], {"tool_calls": [{"name": 1}]}, {"kind": "text", "text": 1},
)  # fmt: skip

_TOKENS = (
    *(b"{", b"}", b"[", b"]", b'"', b"\\", b":", b",", b"'", b"\\u0000", b"\\ud800", b"\xff", b"\xef\xbb\xbf", b"\0"),
    *(b"\r", b"\n", b"\n\n", b"data:", b"event:", b"id:", b"retry:"),
    *(b"NaN", b"-Infinity", b"1e999", b"null", b"true", b"None", b"[" * 200, b'{"a":' * 200),
    *(
        b"```json",
        b"```",
        b"<json>",
        b"</json>",
        b"<tool_call>",
        b'{"name": "get", "arguments": {',
        b'{"action": "respond"',
    ),
)


def numbered(seed: str, number: int) -> random.Random:
    """Return the source of the choices for one input."""
    return random.Random(f"{seed}:{number}")


def damaged_bytes(good: Sequence[bytes], draw: random.Random) -> bytes:
    """Change a good input in up to six places, without regard to what it means."""
    data = bytearray(draw.choice(good))
    for _ in range(draw.choice((1, 1, 1, 2, 3, 6))):
        at = draw.randint(0, len(data))
        end = min(len(data), at + draw.choice((1, 1, 2, 8, 64)))
        match draw.randrange(7):
            case 0:
                data[at:end] = b""
            case 1:
                data[at:at] = draw.choice(_TOKENS)
            case 2:
                data[at:end] = draw.choice(_TOKENS)
            case 3:
                data[at:end] = draw.randbytes(end - at)
            case 4:
                data[at:at] = data[at:end] * draw.choice((1, 2, 20))
            case 5:
                other = draw.choice(good)
                start = draw.randint(0, len(other))
                data[at:end] = other[start : start + draw.choice((4, 40, 400))]
            case _:
                del data[at:]
    return bytes(data)


def damaged_json(good: Sequence[Any], draw: random.Random) -> Any:
    """Change a good document in up to four members: another value, another name, twice, gone, or from elsewhere."""
    document = json.loads(json.dumps(draw.choice(good)))
    for _ in range(draw.choice((1, 1, 2, 4))):
        places = list(_places(document))
        if not places:
            break
        container, key = draw.choice(places)
        match draw.randrange(6):
            case 0:
                del container[key]
            case 1 if isinstance(container, dict):
                container[draw.choice((key.upper(), key + "s", "", key[:-1], "kind", "type"))] = container.pop(key)
            case 2:
                container[key] = [container[key], copy.deepcopy(container[key])]
            case 3:
                other, name = draw.choice(places)
                container[key] = json.loads(json.dumps(other[name] if _has(other, name) else None))
            case _:
                container[key] = copy.deepcopy(draw.choice(ODD_VALUES))
    return document


def _has(container: Any, key: Any) -> bool:
    return key in container if isinstance(container, dict) else key < len(container)


def _places(value: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    rest = [value]
    while rest:
        current = rest.pop()
        members = current.items() if isinstance(current, dict) else enumerate(current)
        for key, inner in members:
            found.append((current, key))
            if isinstance(inner, dict | list):
                rest.append(inner)
    return found


SEED = os.environ.get("A2A_BENCH_FUZZ_SEED", "1")
SECONDS = float(os.environ.get("A2A_BENCH_FUZZ_SECONDS", "20"))
INPUTS = int(os.environ.get("A2A_BENCH_FUZZ_INPUTS", "1000000"))

TOOLS = (
    ToolSpec("get", "", {"type": "object", "properties": {"id": {"type": "string"}, "n": {"type": "integer"}}}),
    ToolSpec("book_flight", "", {"type": "object", "properties": {"legs": {"type": "array"}}}),
)
CALLS = (ToolCall("get", {"id": "a", "n": 2}, "c1"), ToolCall("book_flight", {"legs": [{"no": "X1", "seat": None}]}))
SAID = (AgentSaid("Which day?"), AgentSaid(None, CALLS[:1]), AgentSaid("I look.", CALLS))
DIALECTS = {name: dialects.get(name) for name in dialects.names()}


class Target(NamedTuple):
    """What is fuzzed: how input number so-and-so is made, and what is done with it, which raises nothing."""

    make: Callable[[random.Random], bytes]
    take: Callable[[bytes], None]


def _written(said: AgentSaid) -> Iterator[Part]:
    for dialect in DIALECTS.values():
        yield from dialect.encode_reply(said)


PARTS = [part for said in SAID for part in _written(said)]
FOREIGN = tomllib.loads((Path(__file__).parents[1] / "support" / "replies.toml").read_text("utf-8"))["reply"]
TEXTS = [text.encode() for text in [*(part.text for part in PARTS), *(t for reply in FOREIGN for t in reply["texts"])]]
DATA = [part.data for part in PARTS if part.kind == "data"]


def _check_reply(parts: tuple[Part, ...], data: bytes) -> None:
    """Read parts in one of the dialects, which the input itself chooses."""
    name = list(DIALECTS)[zlib.crc32(data) % len(DIALECTS)]
    reply = DIALECTS[name].decode_reply(parts, TOOLS)
    for call in reply.calls:
        assert isinstance(call.name, str), name
        assert isinstance(call.arguments, Mapping), name
        # What a benchmark's tools are called with has to be what a file can hold.
        json.dumps(call.arguments, allow_nan=False).encode()
    assert reply.text is None or isinstance(reply.text, str), name
    DIALECTS[name].decode_request(parts)


def _take_text(data: bytes) -> None:
    _check_reply((Part("text", text=data.decode("utf-8", "replace")),), data)


def _take_data(data: bytes) -> None:
    _check_reply((Part("data", data=json.loads(data)), Part("text", text="x")), data)


def _json_of(good: list[Any]) -> Callable[[random.Random], bytes]:
    return lambda draw: json.dumps(damaged_json(good, draw)).encode()


def _bytes_of(good: list[bytes]) -> Callable[[random.Random], bytes]:
    return lambda draw: damaged_bytes(good, draw)


def _either(good: list[Any]) -> Callable[[random.Random], bytes]:
    raw = [json.dumps(each).encode() for each in good]
    return lambda draw: (
        damaged_bytes(raw, draw) if draw.random() < 0.3 else json.dumps(damaged_json(good, draw)).encode()
    )


CARDS = [cards.minimal_1_0(), cards.full_1_0(), cards.minimal_0_3(), cards.full_0_3(), cards.hybrid()]


def _take_card(data: bytes) -> None:
    try:
        card = load_card(data, "http://127.0.0.1:1/.well-known/agent-card.json")
        choose_interface(card, "auto", "auto")
    except CardError as error:
        _one_line(error)
    try:
        raw = parse_json(data)
    except ProtocolError:
        return
    for finding in check_card(raw):
        str(finding).encode()


MESSAGE = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hi"}, {"data": {"a": [1]}}], "contextId": "c"}
OLD_MESSAGE = {"kind": "message", "messageId": "m", "role": "agent", "parts": [{"kind": "text", "text": "hi"}]}
ARTIFACT = {"artifactId": "a", "parts": [{"text": "42"}, {"url": "http://x/y", "mediaType": "image/png"}]}
TASK = {
    "id": "t",
    "contextId": "c",
    "status": {"state": "TASK_STATE_COMPLETED", "message": MESSAGE},
    "artifacts": [ARTIFACT],
}
OLD_TASK = {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "working"}, "history": [OLD_MESSAGE]}
EVENTS: list[Any] = [
    {"message": MESSAGE},
    {"task": TASK},
    OLD_MESSAGE,
    OLD_TASK,
    {"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}},
    {"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": ARTIFACT, "append": True, "lastChunk": False}},
    {"kind": "artifact-update", "taskId": "t", "contextId": "c", "artifact": ARTIFACT},
    {"kind": "status-update", "taskId": "t", "contextId": "c", "status": {"state": "completed"}, "final": True},
]


def _take_event(data: bytes) -> None:
    try:
        raw = parse_json(data)
    except ProtocolError as error:
        _one_line(error)
        return
    for form in ("1.0", "0.3", "0.3-proto"):
        for reader in (read_event, read_task):
            try:
                reader(raw, form)
            except ProtocolError as error:
                _one_line(error)


STREAM = b"".join(b"event: message\nid: 1\ndata: " + json.dumps(each).encode() + b"\n\n" for each in EVENTS)
STREAMS = [STREAM, STREAM.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf: hello\rretry: 1\rdata: a\rdata:b\r\r", b"data: {}\n"]


def _events(data: bytes, sizes: Iterator[int]) -> tuple[list[Any], bool]:
    parser, found, at = SSEParser(4096), [], 0
    try:
        while at < len(data):
            size = next(sizes)
            found += parser.feed(data[at : at + size])
            at += size
        return found + parser.close(), False
    except ProtocolError as error:
        _one_line(error)
        return found, True


def _take_stream(data: bytes) -> None:
    """Read a stream in one piece, byte by byte and in odd pieces: the events have to be the same."""
    draw = random.Random(len(data))
    whole, broken = _events(data, iter([len(data) or 1]))
    bytewise, also = _events(data, iter(lambda: 1, 0))
    pieces, too = _events(data, iter(lambda: draw.choice((1, 2, 3, 7, 50)), 0))
    assert broken == also == too
    # A stream that breaks off has told what it told before; in one piece that is nothing yet.
    assert bytewise == pieces if not broken else bytewise[: len(whole)] == whole
    assert broken or whole == bytewise


def _take_stored(data: bytes) -> None:
    for form in FORMS.values():
        try:
            form.parse(data, Path("file.json"))
        except A2ABenchError as error:
            _one_line(error)


def _one_line(error: A2ABenchError) -> None:
    text = str(error)
    assert "\n" not in text
    assert len(text) < 2000
    text.encode()


def _take_query_from(org: Any) -> Callable[[bytes], None]:
    def take(data: bytes) -> None:
        try:
            org.run(data.decode("utf-8", "surrogatepass"))
        except OrgError as refused:
            str(refused).encode()

    return take


def _queries(draw: random.Random) -> bytes:
    return next(iter(hostile_queries(1, draw.randrange(2**40)))).encode("utf-8", "surrogatepass")


NAMES = ("dialects, text", "dialects, data", "events", "card", "stream", "stored files", "queries")


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Target]]:
    """Open an org, write one good file of each kind that we write, and give all that is fuzzed, by name."""
    stored = [json.loads(path.read_bytes()) for path in write_files(tmp_path_factory.mktemp("files")).values()]
    with closing(open_small_org(time_limit=2.0)) as org:
        every = (
            Target(_bytes_of(TEXTS), _take_text),
            Target(_json_of(DATA), _take_data),
            Target(_either(EVENTS), _take_event),
            Target(_either(CARDS), _take_card),
            Target(_bytes_of(STREAMS), _take_stream),
            Target(_either(stored), _take_stored),
            Target(_queries, _take_query_from(org)),
        )
        yield dict(zip(NAMES, every, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_nothing_raises(name: str, targets: dict[str, Target], record_property: Callable[[str, object], None]) -> None:
    target = targets[name]
    end, number = time.monotonic() + SECONDS, 0
    while number < INPUTS and time.monotonic() < end:
        data = target.make(numbered(f"{SEED}:{name}", number))
        try:
            target.take(data)
        except Exception as error:
            what = f"{type(error).__name__}: {error}"[:1000]
            pytest.fail(f"{name}, seed {SEED}, input {number}: {what}\n{data[:2000]!r}", pytrace=False)
        number += 1
    record_property("fuzzed_inputs", number)
    print(f"{name}: {number} inputs")
    assert number > 0
