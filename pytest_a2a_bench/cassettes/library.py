"""The directory of cassettes: one file per trial, and one that tells of the agent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pytest_a2a_bench.a2a.card import AgentCard, parse_card
from pytest_a2a_bench.cassettes.form import Cassette
from pytest_a2a_bench.cassettes.tape import RecordingTape, ReplayTape, Tape
from pytest_a2a_bench.errors import A2ABenchError, CassetteError, ConfigurationError
from pytest_a2a_bench.model import TrialKey
from pytest_a2a_bench.redact import hide_secrets
from pytest_a2a_bench.results.store import save

AGENT = "agent.json"


def recorder(directory: Path, secrets: Iterable[str] = ()) -> Callable[[TrialKey], Tape]:
    """Return what makes a trial's tape while it is recorded.

    :param secrets: texts that no file may hold.
    """
    hidden = tuple(secrets)

    def tape(key: TrialKey) -> Tape:
        def save(cassette: Cassette) -> None:
            _write(_path(directory, key), cassette.to_json(), hidden)

        return RecordingTape(str(key), save)

    return tape


def has(directory: Path, key: TrialKey) -> bool:
    """Tell whether a trial is recorded there."""
    return _path(directory, key).is_file()


def player(directory: Path) -> Callable[[TrialKey], Tape]:
    """Return what makes a trial's tape when it is replayed.

    The returned function raises CassetteError if the trial was not recorded.
    """

    def tape(key: TrialKey) -> Tape:
        path = _path(directory, key)
        try:
            cassette = Cassette.from_json(json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise CassetteError(f"{key}: {directory} has no cassette of it; record it with --a2a-record") from None
        except (OSError, ValueError) as error:
            raise CassetteError(f"{key}: {path} cannot be replayed: {error}") from error
        return ReplayTape(cassette, path.name)

    return tape


def write_agent(directory: Path, endpoint: str, card: AgentCard, secrets: Iterable[str] = ()) -> None:
    """Write down whose cassettes these are.

    :raises StoreError: if the directory cannot be written.
    """
    _write(directory / AGENT, {"endpoint": endpoint, "url": card.url, "card": dict(card.raw)}, tuple(secrets))


def read_endpoint(directory: Path) -> str:
    """Return the endpoint that was recorded.

    :raises ConfigurationError: if the directory holds no cassettes.
    """
    return str(_agent(directory)["endpoint"])


def read_card(directory: Path) -> AgentCard:
    """Return the card that was recorded.

    :raises ConfigurationError: if the directory holds no cassettes.
    """
    data = _agent(directory)
    try:
        return parse_card(data["card"], str(data["url"]))
    except A2ABenchError as error:
        raise ConfigurationError(f"{directory / AGENT}: {error}") from error


def _agent(directory: Path) -> dict[str, Any]:
    path = directory / AGENT
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigurationError(f"{directory} holds no cassettes: it has no {AGENT}; record some first") from None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from error
    if not isinstance(data, dict) or not {"endpoint", "url", "card"} <= set(data):
        raise ConfigurationError(f"{path} does not tell of an agent: expected endpoint, url and card")
    return data


def _write(path: Path, content: dict[str, Any], secrets: tuple[str, ...]) -> None:
    save(path, hide_secrets(json.dumps(content, ensure_ascii=False, indent=1), secrets))


def _path(directory: Path, key: TrialKey) -> Path:
    return directory / f"{key.file_stem}.json"
