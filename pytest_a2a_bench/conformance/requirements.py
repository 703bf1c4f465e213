"""The catalogue of requirements: what the specification wants, one entry each, shipped as data."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from pytest_a2a_bench.conformance.finding import BINDINGS, VERSIONS, Requirement
from pytest_a2a_bench.errors import ConfigurationError

_FILES = MappingProxyType({"1.0": "requirements.jsonl", "0.3": "requirements_v03.jsonl"})


@cache
def load_requirements(version: str) -> tuple[Requirement, ...]:
    """Return the catalogue of one protocol version, in its own order.

    :param version: ``1.0`` or ``0.3``.
    :raises ConfigurationError: for any other version.
    """
    if version not in _FILES:
        raise ConfigurationError(f"there is no catalogue for protocol version {version!r}; use {' or '.join(VERSIONS)}")
    text = (files("pytest_a2a_bench.conformance") / "data" / _FILES[version]).read_text(encoding="utf-8")
    return tuple(_requirement(json.loads(line), version) for line in text.splitlines() if line)


def requirement(id: str, version: str | None = None) -> Requirement:
    """Return one requirement.

    :param id: such as ``SEND-003`` or ``V03-CARD-002``.
    :param version: the version whose catalogue it is in; by default it is looked up in all.
    :raises ConfigurationError: if there is none of that id; the message names the nearest ones.
    """
    found = _by_id().get(id)
    if found is not None and version in (None, found.version):
        return found
    group = id.rpartition("-")[0]
    near = [r for r in _by_id() if r.rpartition("-")[0] == group] or sorted({r.rpartition("-")[0] for r in _by_id()})
    where = f" of version {version}" if version else ""
    raise ConfigurationError(f"there is no requirement {id!r}{where}; there are {', '.join(near)}")


@cache
def _by_id() -> dict[str, Requirement]:
    return {r.id: r for version in _FILES for r in load_requirements(version)}


def _requirement(row: dict[str, Any], version: str) -> Requirement:
    return Requirement(version=version, **{**row, "bindings": tuple(row.get("bindings", BINDINGS))})
