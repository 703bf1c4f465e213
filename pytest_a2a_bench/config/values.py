"""Readers of settings' text: each returns the value, or raises ``ValueError`` that says which text is valid.

Public, so that the settings of other packages' benchmarks are read, and refused, in the same words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pytest_a2a_bench import extensions
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.language_models import read_model
from pytest_a2a_bench.text import did_you_mean

BUILTIN_PREFIX = "builtin:"
AGENT_PREFIX = "a2a:"
"""Precedes the URL of an A2A agent that plays the user."""
MODEL_PREFIX = "llm:"
"""Precedes the name of a language model that plays the user."""
SCRIPTED = "scripted"
BUILTIN_AGENTS = ("oracle", "noop", "readonly", "careful", "llm", "echo")
TAGGED_AGENTS = ("oracle", "careful", "readonly")
"""Built-in agents that play the gold, and so need the task's name in message metadata."""
TAGGED_SKILL = "reference-solutions"
"""The skill by which their cards say so."""
BREAKER = 3
"""Consecutive infrastructure errors after which a run stops, unless a number is set."""

# Names by which credentials are passed to models, also inside of other words (openai_api_key).
_SECRET_NAME = re.compile(
    r"(?:^|_)(?:(?:api|access|secret|private|subscription|auth)_?key|apikey|key|token|secret|password|passwd|credentials?"
    r"|authorization|cookie)$",
    re.IGNORECASE,
)

ENDPOINTS = "expected an http(s):// URL or one of " + ", ".join(BUILTIN_PREFIX + n for n in BUILTIN_AGENTS)


def one_of(*valid: str) -> Callable[[str], str]:
    """Read one of some words."""

    def read(text: str) -> str:
        if text not in valid:
            raise ValueError(f"{text!r} is not one of {', '.join(valid)}{did_you_mean(text, valid)}")
        return text

    return read


def one_of_kind(kind: str, *valid: str) -> Callable[[str], str]:
    """Read one of some words, or the name of an extension (:mod:`pytest_a2a_bench.extensions`).

    :param kind: the kind of extensions.
    """

    def read(text: str) -> str:
        if text in valid:
            return text
        try:
            own = extensions.find(kind, text, valid)
        except ConfigurationError as error:
            raise ValueError(str(error)) from None
        return text if own is not None else one_of(*valid, *extensions.names(kind))(text)

    return read


def whole(minimum: int) -> Callable[[str], int]:
    """Read a whole number of at least ``minimum``."""

    def read(text: str) -> int:
        # re.ASCII, as \d alone takes digits of every script.
        if not re.fullmatch(r"\s*[+-]?\d{1,18}\s*", text, re.ASCII) or int(text) < minimum:
            raise ValueError(f"{text!r} is not a whole number of at least {minimum}")
        return int(text)

    return read


def read_port(text: str) -> int:
    """Read the number of a port; 0 is any free one."""
    if not re.fullmatch(r"\d{1,5}", text, re.ASCII) or int(text) > 65535:
        raise ValueError(f"{text!r} is no port (0 to 65535); before a path name one, 0 for any free port")
    return int(text)


class AutoTrials(int):
    """At most so many attempts at each task: as long as a gate needs them."""


def read_trials(text: str) -> int:
    """Read a number of attempts, ``auto`` or ``auto:N``."""
    word, colon, most = text.strip().lower().partition(":")
    try:
        if word == "auto":
            return AutoTrials(whole(1)(most) if colon else 8)
        return whole(1)(text)
    except ValueError as error:
        raise ValueError(f"{error}, and neither auto nor auto:N") from None


_SPANS = {"": 1, "s": 1, "min": 60}


def read_pace(text: str) -> float:
    """Read how many messages a second, or ``N/min`` a minute, there may be at most; return them by the second."""
    number, _, span = text.strip().partition("/")
    try:
        value = float(number) / _SPANS[span.strip()]
    except (ValueError, KeyError):
        value = 0.0
    if not 0 < value < float("inf"):
        raise ValueError(f"{text!r} is not a number of messages a second, such as 5/s, or a minute, such as 90/min")
    return value


def read_breaker(text: str) -> int:
    """Read how many trials in a row open the breaker; ``on`` is the default, ``off`` is 0."""
    word = text.strip().lower()
    if word in ("on", "off"):
        return BREAKER if word == "on" else 0
    try:
        return whole(0)(text)
    except ValueError:
        raise ValueError(f"{text!r} is not on, off, or a number of trials such as 3 (0 is off)") from None


def read_json_object(text: str) -> dict[str, Any]:
    """Read a JSON object."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f'not JSON ({error}); expected an object such as {{"temperature": 0}}') from None
    if not isinstance(value, dict):
        raise ValueError(f'{text!r} is not a JSON object; expected one such as {{"temperature": 0}}')
    return value


def read_model_arguments(given: str | dict[str, Any]) -> dict[str, Any]:
    """Read the arguments of a language model, which must hold no credentials: they are stored with every result.

    :param given: the text of a JSON object, or the object itself, as a TOML table has it.
    """
    value = read_json_object(given) if isinstance(given, str) else given
    secrets = sorted(set(_secret_names(value)))
    if secrets:
        # They would be stored with every result. The values are not repeated here either.
        raise ValueError(
            f"must not hold {', '.join(secrets)}; set the environment variable that LiteLLM reads for your provider "
            "(OPENAI_API_KEY, ANTHROPIC_API_KEY, ...) instead"
        )
    return value


def _secret_names(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            # camelCase and dashes are spellings of the same names.
            if _SECRET_NAME.search(re.sub(r"(?<=[a-z0-9])(?=[A-Z])|-", "_", name)):
                yield name
            else:
                yield from _secret_names(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _secret_names(inner)


def read_variable_name(text: str) -> str:
    """Read the name of an environment variable."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text):
        # The value is not repeated: what is wrong here is most often that it is the token itself.
        raise ValueError("not the name of an environment variable; put the token into one and give its name")
    return text


def read_text(text: str) -> str:
    """Read any text but an empty one."""
    if not text.strip():
        raise ValueError("the value is empty")
    return text


def read_endpoint(text: str) -> str:
    """Read an agent's base URL, or ``builtin:NAME``; credentials in it are refused."""
    if text.startswith(BUILTIN_PREFIX):
        return _builtin(text)
    if "@" in text.partition("://")[2].partition("/")[0]:
        raise ValueError("the URL contains credentials; put the token into an environment variable (--a2a-auth-env)")
    if not is_url(text, ("http", "https")):
        shown = without_query(text, text)
        raise ValueError(f"{shown!r} is not an endpoint; {ENDPOINTS}{_meant(shown)}")
    return text


def _meant(text: str) -> str:
    """Return what a text without a scheme most likely means, as the end of a message; else nothing."""
    if text in BUILTIN_AGENTS:
        return f"; did you mean '{BUILTIN_PREFIX}{text}'?"
    # One word may be anything; a host has a port or a dot.
    has_port = re.match(r"[^/]+:\d", text) is not None
    url = f"{'http' if has_port else 'https'}://{text}"
    is_host = re.search("://|@", text) is None and (has_port or "." in text.partition("/")[0].strip("."))
    return f"; did you mean {url!r}?" if is_host and is_url(url, ("http", "https")) else ""


def read_url_of_agent(text: str) -> str:
    """Read the URL of an agent that runs already."""
    if text.startswith(BUILTIN_PREFIX):
        raise ValueError(f"no gateway stands before {text}; start that agent, and give its URL")
    return read_endpoint(text)


def is_gateway_itself(direct: str, endpoint: str) -> bool:
    """Return whether the agent behind a gateway was given as the gateway's own URL, where nothing could differ."""
    return direct.rstrip("/") == endpoint.rstrip("/")


def read_user(text: str) -> str:
    """Read who plays the user: ``scripted``, ``llm:`` and a model, or ``a2a:`` and the URL of an agent."""
    if text.startswith(MODEL_PREFIX):
        return MODEL_PREFIX + read_model(text.removeprefix(MODEL_PREFIX))
    if not text.startswith(AGENT_PREFIX):
        return one_of(SCRIPTED, f"{MODEL_PREFIX}MODEL", f"{AGENT_PREFIX}URL")(text)
    url = text.removeprefix(AGENT_PREFIX)
    if url.startswith(BUILTIN_PREFIX):
        raise ValueError("no built-in agent plays a user; start an agent that does, and give its URL (a2a:http://...)")
    return AGENT_PREFIX + read_endpoint(url)


def read_colleagues(text: str) -> dict[str, str]:
    """Read ``NAME=URL`` of an agent that may be asked, or of several, with white space between them."""
    given = [_read_colleague(word) for word in text.split() or [text]]
    if len({name.lower() for name, _ in given}) < len(given):
        raise ValueError(f"two colleagues have one name ({', '.join(name for name, _ in given)}); give each another")
    return dict(given)


def _read_colleague(text: str) -> tuple[str, str]:
    name, _, url = text.partition("=")
    if not re.fullmatch(r"[A-Za-z][\w-]{0,39}", name, re.ASCII) or name == "user":
        raise ValueError("expected NAME=URL, with a name of letters, digits, - and _ that is not 'user'")
    if url.startswith(BUILTIN_PREFIX):
        raise ValueError("no built-in agent is a colleague; start an agent that is, and give its URL (NAME=http://...)")
    return name, read_endpoint(url)


_NAMED = re.compile(r"([A-Za-z][A-Za-z0-9_]*)=(.*)", re.DOTALL)


def split_named(text: str) -> tuple[str | None, str]:
    """Return the name of the agent that a value is for (``b=VALUE``), or None, and the value."""
    match = _NAMED.fullmatch(text)
    return (match[1], match[2]) if match else (None, text)


def read_endpoints(text: str) -> str | dict[str, str]:
    """Read one endpoint, or several that have names: ``a=URL b=URL``, with white space between them."""
    given = [split_named(word) for word in text.split()]
    names = [name for name, _ in given]
    if not given or names == [None] * len(names):
        # As pytest does with options: the last one counts.
        return read_endpoint(given[-1][1] if given else text)
    if None in names:
        raise ValueError("some endpoints have a name and some have none; give each one, such as a=URL b=URL")
    # The names end environment variables too, which know no lower case on some systems.
    if len({str(name).lower() for name in names}) < len(names):
        raise ValueError(f"two endpoints have one name ({', '.join(map(str, names))}); give each another")
    found = {}
    for name, endpoint in given:
        try:
            found[str(name)] = read_endpoint(endpoint)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return found


def read_agent_name(text: str) -> str:
    """Read the name of an endpoint."""
    if split_named(f"{text}=") != (text, ""):
        raise ValueError(f"{text!r} is no name of an endpoint: a letter, then letters, digits and underscores")
    return text


def _builtin(text: str) -> str:
    name = text.removeprefix(BUILTIN_PREFIX).partition("?")[0]
    # What follows the question mark is the agent's own business, and is read when it is started.
    if name not in BUILTIN_AGENTS and name not in extensions.names("agents"):
        near = did_you_mean(name, (*BUILTIN_AGENTS, *extensions.names("agents")))
        raise ValueError(f"no built-in agent is called {name!r}; {ENDPOINTS}{near}")
    if name in BUILTIN_AGENTS:
        # One of the project's own that has the name would be ignored.
        try:
            extensions.find("agents", name, (name,))
        except ConfigurationError as error:
            raise ValueError(str(error)) from error
    return text


def read_shard(text: str) -> str:
    """Read ``I/N``."""
    return str(shard_of(text))


def read_names(text: str) -> tuple[str, ...]:
    """Read names separated by commas or white space, each once."""
    return tuple(dict.fromkeys(name for name in re.split(r"[,\s]+", text) if name))


def read_local_path(text: str) -> str:
    """Read the name of a file of this machine; raises ValueError if it is empty, or a URL."""
    if "://" in text:
        raise ValueError(f"{text!r} is a URL; name a file or directory of this machine")
    return read_text(text)


def locate_file(text: str, base: Path) -> str:
    """Return a path made absolute; a URL stays as it is."""
    # absolute() and not resolve(): a link stays what the user named.
    return text if "://" in text else str((base / text).absolute())


def locate_named_file(text: str, base: Path) -> str:
    """Like :func:`locate_file`, also for a file that is for one agent (``b=FILE``)."""
    name, place = split_named(text)
    if name is None or (base / text).exists():
        return locate_file(text, base)
    return f"{name}={locate_file(place, base)}"


def locate_ca(text: str, base: Path) -> str:
    """Like :func:`locate_file`, but ``system`` stays: it means the trust store of this machine."""
    return text if text == "system" else locate_file(text, base)


def read_path(text: str) -> str:
    """Read the name of a file; a key or certificate itself is refused, and not repeated."""
    if "-----BEGIN" in text or "\n" in text:
        raise ValueError("not the name of a file, but what should be in one; give the name of a file of PEM")
    return read_text(text)


def read_proxy(text: str) -> str:
    """Read ``env``, ``none`` or a proxy's URL; credentials in it are refused, because options show in process lists."""
    if text in ("env", "none"):
        return text
    _read_url(text, ("http", "https", "socks5", "socks5h"), "HTTPS_PROXY and leave --a2a-proxy at env")
    return text


def read_token_url(text: str) -> str:
    """Read the URL of an OAuth 2 token endpoint."""
    _read_url(text, ("https", "http"), "the variables of oauth-client-id-env and oauth-client-secret-env")
    return text


def _read_url(text: str, schemes: tuple[str, ...], elsewhere: str) -> None:
    if "@" in text:
        raise ValueError(f"the URL contains credentials; put them into {elsewhere}")
    if not is_url(text, schemes):
        raise ValueError(f"{without_query(text, text)!r} is not a URL of {', '.join(schemes)}")


def is_url(text: str, schemes: Collection[str]) -> bool:
    """Return whether a text is an absolute URL of one of some schemes, with a host and a port that can be called."""
    try:
        parts = urlsplit(text)
        # Port 0 is for listening.
        return parts.scheme.lower() in schemes and bool(parts.hostname) and parts.port != 0 and min(text) > " "
    except ValueError:
        return False


def without_query(text: str, endpoint: str | None) -> str:
    """Return text without an endpoint's query, which may hold a key; a built-in agent's has only its options."""
    where, _, query = (endpoint or "").partition("?")
    if not query or where.startswith(BUILTIN_PREFIX):
        return text
    shown = text.replace(f"?{query}", "?...")
    return shown.replace(query, "...") if "=" in query else shown


def read_odd(number: int) -> int:
    """Return a number if it is odd; raises ValueError if it is even."""
    if number % 2 == 0:
        raise ValueError(f"{number} is even, and could have no majority")
    return number


# --- which of several parts of a run this machine runs (``--a2a-shard``) ---


@dataclass(frozen=True, slots=True)
class Shard:
    """One of several parts.

    :param index: counted from 1.
    """

    index: int
    total: int

    def __str__(self) -> str:
        return f"{self.index}/{self.total}"


def shard_of(text: str) -> Shard:
    """Read ``I/N``, counted from 1; raises ValueError with the valid form."""
    index, slash, total = text.partition("/")
    if not slash or not index.strip().isdecimal() or not total.strip().isdecimal():
        raise ValueError(f"{text!r} is not I/N, such as 2/5")
    if not 1 <= int(index) <= int(total):
        raise ValueError(f"{text!r} is not a part: I counts from 1 to N, and N is at least 1")
    return Shard(int(index), int(total))
