"""The directory of cassettes: one file per trial, and one that tells of the agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_a2a_bench.a2a.card import AgentCard, parse_card
from pytest_a2a_bench.cassettes.tape import CASSETTE, Cassette, RecordingTape, ReplayTape, Tape
from pytest_a2a_bench.errors import A2ABenchError, CassetteError, ConfigurationError
from pytest_a2a_bench.model import TrialKey
from pytest_a2a_bench.redact import hide_secrets
from pytest_a2a_bench.results.store import StoredForm, save
from pytest_a2a_bench.secret import dump_json

AGENT = "agent.json"


@dataclass(frozen=True, slots=True)
class RecordedAgent:
    """Whose cassettes these are.

    :param url: where its card was found.
    """

    endpoint: str
    url: str
    card: Mapping[str, Any]


_AGENT = StoredForm(
    RecordedAgent,
    " does not tell of an agent",
    "record again with --a2a-record",
    ConfigurationError,
    version=0,
)


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
    """Return whether a trial is recorded there."""
    return _path(directory, key).is_file()


def read(directory: Path, key: TrialKey) -> Cassette:
    """Return what was recorded of a trial.

    :raises CassetteError: if it cannot be read.
    :raises FileNotFoundError: if it was not recorded.
    """
    return CASSETTE.read(_path(directory, key))


def player(directory: Path) -> Callable[[TrialKey], Tape]:
    """Return what makes a trial's tape when it is replayed.

    The returned function raises CassetteError if the trial was not recorded.
    """

    def tape(key: TrialKey) -> Tape:
        try:
            cassette = read(directory, key)
        except FileNotFoundError:
            raise CassetteError(f"{key}: {directory} has no cassette of it; record it with --a2a-record") from None
        except CassetteError as error:
            raise CassetteError(f"{key}: {error}") from error
        return ReplayTape(cassette, _path(directory, key).name)

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
    return _agent(directory).endpoint


def read_card(directory: Path) -> AgentCard:
    """Return the card that was recorded.

    :raises ConfigurationError: if the directory holds no cassettes.
    """
    recorded = _agent(directory)
    try:
        return parse_card(recorded.card, recorded.url)
    except A2ABenchError as error:
        raise ConfigurationError(f"{directory / AGENT}: {error}") from error


def _agent(directory: Path) -> RecordedAgent:
    try:
        return _AGENT.read(directory / AGENT)
    except FileNotFoundError:
        raise ConfigurationError(f"{directory} holds no cassettes: it has no {AGENT}; record some first") from None


def _write(path: Path, content: dict[str, Any], secrets: tuple[str, ...]) -> None:
    save(path, hide_secrets(dump_json(content), secrets))


def _path(directory: Path, key: TrialKey) -> Path:
    return directory / f"{key.file_stem}.json"
