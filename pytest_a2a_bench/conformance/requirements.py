"""The catalogue of requirements: what the specification wants, one entry each, shipped as data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from pytest_a2a_bench import extensions
from pytest_a2a_bench.conformance.check import CHECKS, CheckFunction
from pytest_a2a_bench.conformance.finding import BINDINGS, VERSIONS, Requirement
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.nearest import did_you_mean

_FILES = MappingProxyType({"1.0": "requirements.jsonl", "0.3": "requirements_v03.jsonl"})


def load_requirements(version: str) -> tuple[Requirement, ...]:
    """Return the requirements of one protocol version: the catalogue in its own order, then what others add.

    :param version: ``1.0`` or ``0.3``.
    :raises ConfigurationError: for any other version, and if a pack of requirements cannot be used.
    """
    added = tuple(requirement for requirement, _ in _packs() if requirement.version == version)
    return (*_catalogue(version), *added)


@cache
def _catalogue(version: str) -> tuple[Requirement, ...]:
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
    known = {r.id: r for v in _FILES for r in load_requirements(v)}
    found = known.get(id)
    if found is not None and version in (None, found.version):
        return found
    group = id.rpartition("-")[0]
    near = [r for r in known if r.rpartition("-")[0] == group] or sorted({r.rpartition("-")[0] for r in known})
    where = f" of version {version}" if version else ""
    raise ConfigurationError(
        f"there is no requirement {id!r}{where}; there are {', '.join(near)}{did_you_mean(id, known)}"
    )


def whose_pack(requirement: Requirement) -> str:
    """Return whose a requirement is that is in no catalogue of ours; empty for those of the catalogue."""
    packs = extensions.load_all("requirements")
    return next((e.source for e, pack in packs if requirement in (one for one, _ in pack)), "")


def _packs() -> Iterator[tuple[Requirement, CheckFunction]]:
    """Yield the requirements that other distributions and the project add, and their checks, which are registered.

    :raises ConfigurationError: if one of them has an id that is taken, or is none.
    """
    taken = {r.id: "the catalogue" for version in _FILES for r in _catalogue(version)}
    for extension, pack in extensions.load_all("requirements"):
        for pair in pack:
            if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], Requirement)):
                raise ConfigurationError(f"the {extension} must be (Requirement, check) pairs, and has {pair!r}")
            requirement, check = pair
            if requirement.id in taken:
                raise ConfigurationError(f"the {extension} has {requirement.id}, which is in {taken[requirement.id]}")
            taken[requirement.id] = str(extension)
            CHECKS[requirement.id, requirement.version] = check
            yield requirement, check


def _requirement(row: dict[str, Any], version: str) -> Requirement:
    return Requirement(version=version, **{**row, "bindings": tuple(row.get("bindings", BINDINGS))})
