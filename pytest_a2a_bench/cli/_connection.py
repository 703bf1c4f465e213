"""How commands reach an agent: the options of ``--a2a-...``, here with or without that prefix."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_a2a_bench.a2a.config import ClientConfig, connection_problems
from pytest_a2a_bench.configuration.option import Option
from pytest_a2a_bench.configuration.table import CONNECTION
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.settings import Settings


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options; messages name them with the prefix, so both spellings are taken."""
    told = "As in pytest, with --a2a- before the name or without."
    add_options(parser, CONNECTION, "connection", told, ("--", "--a2a-"))


def add_options(
    parser: ArgumentParser,
    options: Sequence[Option],
    title: str,
    about: str,
    prefixes: Sequence[str],
    of: str = "",
) -> None:
    """Declare some of pytest's options as a command's.

    :param prefixes: what may stand before an option's name, such as ``--a2a-``.
    :param of: whom they are about, where that is not the agent under test: it stands before the names of their values,
        and the environment says nothing of it.
    """
    group = parser.add_argument_group(title, about)
    for option in options:
        told = option.help if of else f"{option.help} (environment: {option.env})"
        dest = f"{of}{option.dest}"
        names = [f"{prefix}{option.cli_stem}" for prefix in prefixes]
        if option.flag:
            group.add_argument(*names, dest=dest, action="store_const", const="on", default=None, help=told)
            opposite = [f"{prefix}no-{option.cli_stem}" for prefix in prefixes]
            group.add_argument(
                *opposite, dest=dest, action="store_const", const="off", help=f"The opposite of {names[0]}"
            )
        else:
            group.add_argument(*names, dest=dest, metavar=option.metavar, default=None, help=told)


def read_config(namespace: Namespace, endpoint: str, environ: Mapping[str, str] = os.environ) -> ClientConfig:
    """Return how to reach an agent, as arguments and environment say.

    :raises ConfigurationError: naming all that is wrong.
    """
    return ClientConfig.from_settings(read_settings(namespace, endpoint, CONNECTION, environ), environ)


def read_settings(
    namespace: Namespace, endpoint: str, options: Sequence[Option], environ: Mapping[str, str] = os.environ
) -> Settings:
    """Return the settings that some of pytest's options come to.

    :raises ConfigurationError: naming all that is wrong.
    """
    values: dict[str, Any] = {}
    wrong = []
    for option in options:
        text, where = _find(option, namespace, environ)
        if text:
            try:
                values[option.name] = _read(option, text)
            except ValueError as error:
                wrong.append(f"{where}: {error}")
    settings = Settings(endpoint=endpoint, **values)
    wrong += connection_problems(settings, environ)
    if wrong:
        raise ConfigurationError("; ".join(wrong))
    return settings


def _find(option: Option, namespace: Namespace, environ: Mapping[str, str]) -> tuple[str, str]:
    given = getattr(namespace, option.dest)
    return (given, option.cli) if given is not None else (environ.get(option.env, ""), option.env)


def _read(option: Option, text: str) -> Any:
    value = option.read(text)
    return option.locate(value, Path.cwd()) if option.locate is not None else value
