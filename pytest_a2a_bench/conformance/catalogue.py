"""The catalogue of requirements, one file for each protocol version, and the checks that it names.

A row says what the specification wants (id, group, section, level), where it holds (bindings), which profile checks it,
and by which function of :mod:`.checks`: ``check`` is ``module.function``, or several of them; ``timed`` says that its
verdict depends on time, ``vary`` what it is tried with beside its representative (:mod:`.variants`), ``stress`` names
a check with data that tell one agent from another, ``ask`` has the requests that a check sends (:mod:`.checks.asking`),
``explains`` names what follows where it is broken (:mod:`.grouping`), and ``uncheckable`` says why no endpoint can show
a requirement.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, get_args

from pytest_a2a_bench import extensions
from pytest_a2a_bench.config.settings import CHECK_PROFILES
from pytest_a2a_bench.conformance import data
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.finding import (
    BINDINGS,
    CARD,
    VERSIONS,
    Ask,
    CheckFunction,
    Level,
    Planned,
    Requirement,
    Vary,
)
from pytest_a2a_bench.conformance.target import declared
from pytest_a2a_bench.conformance.wire.reply import SkipCheck
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.text import did_you_mean

UNDECLARED = "DECLARED"

_FILES = {"1.0": "requirements.jsonl", "0.3": "requirements_v03.jsonl"}


def load_requirements(version: str) -> tuple[Requirement, ...]:
    """Return the requirements of one protocol version: the catalogue's, then those of other packages.

    :param version: ``1.0`` or ``0.3``.
    :raises ConfigurationError: for any other version, and if a pack of requirements cannot be used.
    """
    return (*_catalogue(version), *(added for added in _packs() if added.version == version))


@cache
def _catalogue(version: str) -> tuple[Requirement, ...]:
    if version not in _FILES:
        raise ConfigurationError(f"there is no catalogue for protocol version {version!r}; use {' or '.join(VERSIONS)}")
    return _read(_FILES[version], version)


@cache
def load_gateway_requirements() -> tuple[Requirement, ...]:
    """Return the requirements of a gateway before an agent; they are the same for each version of the protocol."""
    return _read("gateway.jsonl", "1.0")


def _read(name: str, version: str) -> tuple[Requirement, ...]:
    return tuple(_requirement(row, version) for row in data.load(name))


def _requirement(row: dict[str, Any], version: str) -> Requirement:
    vary, ask = Vary(**_with_tuples(row.pop("vary", {}))), Ask(**_with_tuples(row.pop("ask", {})))
    return Requirement(version=version, vary=vary, ask=ask, **_with_tuples(row))


def _with_tuples(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}


@cache
def rule_ids(version: str) -> Mapping[str, str]:
    """Return the ids in one version's catalogue of the rules of a card that both versions have, by their names."""
    return {name: entry.id for entry in _catalogue(version) for name in entry.rules}


def requirement(id: str, version: str | None = None) -> Requirement:
    """Return one requirement.

    :param id: such as ``SEND-003`` or ``V03-CARD-002``.
    :param version: the version whose catalogue it is in; by default it is looked up in all.
    :raises ConfigurationError: if there is none of that id; the message names the nearest ones.
    """
    known = {r.id: r for v in _FILES for r in load_requirements(v)} | {r.id: r for r in load_gateway_requirements()}
    found = known.get(id)
    if found is not None and version in (None, found.version):
        return found
    group = id.rpartition("-")[0]
    near = [r for r in known if r.rpartition("-")[0] == group] or sorted({r.rpartition("-")[0] for r in known})
    where = f" of version {version}" if version else ""
    raise ConfigurationError(
        f"there is no requirement {id!r}{where}; there are {', '.join(near)}{did_you_mean(id, known)}"
    )


def _packs() -> Iterator[Requirement]:
    """Yield the requirements that other distributions and the project add, with their checks.

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
            if wrong := _wrong(requirement):
                raise ConfigurationError(f"the {extension} has {requirement.id} with {wrong}")
            taken[requirement.id] = str(extension)
            yield replace(requirement, check=check, source=extension.source)


def _wrong(requirement: Requirement) -> str:
    """Return the first member of a requirement that is none of its values: nothing would be judged by it."""
    for name, valid in (("level", get_args(Level)), ("version", VERSIONS), ("profile", CHECK_PROFILES)):
        if (value := getattr(requirement, name)) not in valid:
            return f"{name} {value!r}; valid are: {', '.join(valid)}"
    unknown = [each for each in requirement.bindings if each not in (*BINDINGS, CARD)]
    return f"bindings {unknown}; valid are: {', '.join((*BINDINGS, CARD))}" if unknown else ""


# -- checks --


def function(name: str) -> CheckFunction:
    """Return a check by the name that the catalogue has for it: ``module.function`` of :mod:`.checks`."""
    module, _, attribute = name.partition(".")
    found: CheckFunction = getattr(importlib.import_module(f"pytest_a2a_bench.conformance.checks.{module}"), attribute)
    return found


def check_of(requirement: Requirement) -> CheckFunction:
    """Return a requirement's check."""
    if not isinstance(requirement.check, str):
        return requirement.check
    checks = [function(name) for name in requirement.checks]
    return checks[0] if len(checks) == 1 else _one_after_the_other(checks)


def _one_after_the_other(checks: Sequence[CheckFunction]) -> CheckFunction:
    """Return a check that runs several; it is skipped where all of them are."""

    async def every(ctx: Context) -> None:
        reasons = []
        for check in checks:
            try:
                await check(ctx)
            except SkipCheck as skip:
                reasons.append(str(skip))
        if len(reasons) == len(checks):
            ctx.skip(reasons[0])

    return every


# -- plans --


def plan(card: Mapping[str, Any], endpoint: str = "") -> list[Planned]:
    """Return the checks that there are for a card: requirement by binding, in the order of the catalogue.

    A binding that the card does not declare at all gives one entry, which is skipped when it is run.
    """
    interfaces = declared(card, endpoint)
    return [p for version in dict.fromkeys(v for _, v in interfaces) for p in _plan_version(version, interfaces)]


def _plan_version(version: str, interfaces: Sequence[tuple[str, str]]) -> list[Planned]:
    # In the catalogue's order and not in that of the card: reports of two agents can be laid side by side.
    here = [b for b in BINDINGS if (b, version) in interfaces]
    entries = [entry for entry in load_requirements(version) if entry.check]
    found = [Planned(entry, binding) for entry in entries for binding in here if binding in entry.bindings]
    # One entry for each binding that is not there, so that no report silently lacks one.
    text = "The agent card declares this binding"
    missing = Requirement(UNDECLARED, "binding", f"{version} §4.4.6", "MAY", text, version, profile="safe")
    return found + [Planned(missing, b) for b in BINDINGS if b not in here]
