"""Which suites there are: our own, those of installed packages, and those of a project's conftest."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, cast

from pytest_a2a_bench import extensions
from pytest_a2a_bench.benchmarks.suite import Suite, stored_variant
from pytest_a2a_bench.config.load import CORE
from pytest_a2a_bench.config.setting import Setting
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.nearest import did_you_mean

if TYPE_CHECKING:
    from pytest_a2a_bench.benchmarks.base import Benchmark
    from pytest_a2a_bench.benchmarks.diagnosis import Diagnoser
    from pytest_a2a_bench.benchmarks.player import Player
    from pytest_a2a_bench.model import TrialResult

BUILT_IN = {
    "tau2": "pytest_a2a_bench.benchmarks.tau2.suite",
    "crmarena": "pytest_a2a_bench.benchmarks.crmarena.suite",
    "a2a_scenario": "pytest_a2a_bench.benchmarks.scenario.suite",
}
"""Our own suites, and the modules that have them as ``SUITE``: the one place that names them."""

_registered: dict[str, Suite] = {}
_players: dict[str, str] = {}
"""Name of a suite that is not known in this process -> module of its player."""


def built_in() -> list[Suite]:
    """Return our own suites, as any package's plugin offers its own."""
    return [cast("Suite", importlib.import_module(module).SUITE) for module in BUILT_IN.values()]


def register(suites: Iterable[Suite]) -> None:
    """Add suites that a plugin or conftest offers through the ``pytest_a2a_bench_suites`` hook."""
    for suite in suites:
        _registered[suite.name] = suite


def names() -> tuple[str, ...]:
    """Return the names of all suites without importing any."""
    return tuple(dict.fromkeys([*BUILT_IN, *extensions.names("suites"), *_registered]))


def known() -> list[Suite]:
    """Return the suites that are known without looking at what is installed: ours, and those offered by the hook."""
    return [*built_in(), *(suite for name, suite in _registered.items() if name not in BUILT_IN)]


def selectable_names(*more: str) -> tuple[str, ...]:
    """Return what ``--a2a-suite`` accepts: each suite, each domain, and what else there is."""
    domains = [domain for suite in load_all() for domain in suite.domains]
    return tuple(dict.fromkeys([*names(), *domains, *more]))


def split_names() -> tuple[str, ...]:
    """Return what ``--a2a-split`` accepts."""
    return tuple(dict.fromkeys(split for suite in known() for split in suite.split_names))


def group_names() -> set[str]:
    """Return every name that trials can be grouped by: suites, domains, categories, and these with slashes between.

    Of an installed suite that cannot be loaded only the name is known.
    """
    found = set(names())
    for name in names():
        with contextlib.suppress(ConfigurationError):
            suite = load(name)
            found |= {*suite.domains, *suite.categories, *(f"{name}/{domain}" for domain in suite.domains)}
            found |= {f"{name}/{domain}/{category}" for domain in suite.domains for category in suite.categories}
    return found


def every_setting() -> dict[str, Setting]:
    """Return every setting by name: those of the core, then those of benchmarks.

    :raises ConfigurationError: if two of them have one name.
    """
    found = dict(CORE)
    for suite in known():
        for setting in suite.options:
            if setting.name in found:
                raise ConfigurationError(f"suite {suite.name!r}: there is another setting {setting.key!r} already")
            found[setting.name] = setting
    return found


def places() -> list[Setting]:
    """Return the benchmarks' options that say where data are; results identify the data."""
    return [option for suite in known() for option in suite.options if option.locate is not None]


def without_places(settings: Settings) -> Settings:
    """Return settings that are the same wherever the benchmarks' data are, for who knows what they are."""
    nowhere = {option.name: option.default for option in places() if option.name in settings.benchmark_options}
    return dataclasses.replace(settings, benchmark_options={**settings.benchmark_options, **nowhere})


def load(name: str, settings: Settings | None = None) -> Suite:
    """Return a suite by its name.

    :param settings: the run's; without them a suite is what it is by default.
    :raises ConfigurationError: if there is none, or it cannot be imported.
    """
    suite = _load(name)
    return suite.bind(settings) if suite.bind is not None and settings is not None else suite


def load_all(settings: Settings | None = None) -> Iterator[Suite]:
    """Yield every suite, in the order of :func:`names`."""
    for name in names():
        yield load(name, settings)


def find(name: str) -> Suite | None:
    """Return a suite by its name, or None: stored results may be of one that is not installed here."""
    try:
        return _load(name)
    except ConfigurationError:
        return None


def label_of(suite: str, domain: str, variant: str = "") -> str:
    """Return what a domain is called in tables: by its own name where its suite has that to itself.

    :param variant: how the benchmark was changed, if it was.
    """
    found = find(suite)
    name = domain if found is not None and found.short_labels else f"{suite}/{domain}"
    return f"{name} ({variant})" if variant else name


def variant_of(result: TrialResult) -> str:
    """Say which of a domain's trials a trial belongs to: those of its agent, where agents have names, and those for
    which the benchmark was changed in the same way (:func:`change_of`). Others are never averaged in.
    """
    return ", ".join(filter(None, (result.key.agent, change_of(result))))


def change_of(result: TrialResult) -> str:
    """Say how the benchmark was changed for a trial (``drift low``); empty where it was not.

    The suite says it, also of results that an older version stored; of a suite that is not installed the result's own
    word is taken.
    """
    # Stored results travel: they are compared on machines where the suite's package was never installed.
    suite = find(result.key.suite)
    return suite.variant(result.provenance) if suite is not None else stored_variant(result.provenance)


def remarks_of(result: TrialResult) -> tuple[str, ...]:
    """Return what its suite says must be known of a result's task to read its reward, a line each."""
    suite = find(result.key.suite)
    return tuple(suite.remarks(result)) if suite is not None else ()


def get_benchmark(name: str) -> Benchmark:
    """Return what runs a suite's trials.

    :raises ConfigurationError: if there is no such suite, or it names no module.
    """
    module = _load(name).benchmark
    if not module:
        raise ConfigurationError(f"the suite {name!r} names no benchmark module, so its trials cannot be run")
    return cast("Benchmark", importlib.import_module(module).BENCHMARK)


def register_players(modules: Mapping[str, str]) -> None:
    """Register suites that only the run's conftest offers, in a process that serves a built-in agent."""
    _players.update(modules)


def offered_players() -> dict[str, str]:
    """Return the players that such a process needs: suite -> module."""
    return {name: suite.player for name, suite in _registered.items() if name not in BUILT_IN and suite.player}


def get_player(name: str) -> Player | None:
    """Return what the built-in agents ask about a suite; None where it has nothing for them.

    :raises ConfigurationError: if there is no such suite, or its player cannot be imported.
    """
    # Players that a process was given come first: one that serves an agent never sees the run's conftest, so it cannot
    # load the suite.
    module = _players.get(name) or _load(name).player
    if not module:
        return None
    try:
        return cast("Player", importlib.import_module(module).PLAYER)
    # Ours or anybody's module: what is wrong with it is for its author to read, in one line.
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"the player of suite {name!r} cannot be loaded from {module!r}: {error}") from error


def get_diagnoser(name: str) -> Diagnoser | None:
    """Return what says why a suite's trials missed; None where it has nothing that does, or is not installed here."""
    suite = find(name)
    if suite is None or not suite.diagnoser:
        return None
    try:
        return cast("Diagnoser", importlib.import_module(suite.diagnoser).DIAGNOSER)
    except (ImportError, AttributeError) as error:
        text = f"the diagnoser of suite {name!r} cannot be loaded from {suite.diagnoser!r}: {error}"
        raise ConfigurationError(text) from error


def players() -> Iterator[tuple[str, Player]]:
    """Yield every suite's player; one that cannot be loaded is passed over, as nobody asked for that suite."""
    for name in dict.fromkeys([*_players, *names()]):
        with contextlib.suppress(ConfigurationError):
            player = get_player(name)
            if player is not None:
                yield name, player


def _load(name: str) -> Suite:
    if name in _registered:
        return _registered[name]
    if name in BUILT_IN:
        return cast("Suite", importlib.import_module(BUILT_IN[name]).SUITE)
    extension = extensions.find("suites", name, BUILT_IN)
    if extension is None:
        raise ConfigurationError(
            f"there is no suite {name!r}; valid are: {', '.join(names())}{did_you_mean(name, names())}"
        )
    return cast("Suite", extension.load())
