"""Keeps the agent's credentials out of exceptions and out of the HTTP client's log."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pytest_a2a_bench.errors import A2ABenchError
from pytest_a2a_bench.redact import hide_secrets

_LOGGERS = ("httpx", "httpcore.connection", "httpcore.http11", "httpcore.http2", "httpcore.proxy", "httpcore.socks")


def hide_in_error(error: BaseException | None, secrets: Sequence[str]) -> None:
    """Take secrets out of an error's message, and cut off causes of it that show them: those are not ours to change."""
    seen: set[int] = set()
    while secrets and error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, A2ABenchError):
            error.args = tuple(hide_secrets(a, secrets) if isinstance(a, str) else a for a in error.args)
        if _shows(error.__cause__, secrets):
            error.__cause__ = None
        if _shows(error.__context__, secrets):
            error.__context__ = None
        error = error.__cause__ or error.__context__


def _shows(error: BaseException | None, secrets: Sequence[str]) -> bool:
    if error is None or isinstance(error, A2ABenchError):
        return False
    shown = f"{error}\n{error!r}\n"
    return hide_secrets(shown, secrets) != shown


class SecretFilter(logging.Filter):
    """Rewrites what the HTTP client logs (URLs at INFO, headers of answers at DEBUG) without the secrets.

    :param secrets: of one connection; other connections have filters of their own.
    """

    def __init__(self, secrets: Sequence[str]) -> None:
        super().__init__()
        self._secrets = tuple(secrets)

    def install(self) -> None:
        """Begin; a logger's filter does not see what its children log, so each has to have it."""
        for name in _LOGGERS if self._secrets else ():
            logging.getLogger(name).addFilter(self)

    def remove(self) -> None:
        """End."""
        for name in _LOGGERS:
            logging.getLogger(name).removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass, changed where it must be."""
        message = record.getMessage()
        hidden = hide_secrets(message, self._secrets)
        if hidden != message:
            record.msg, record.args = hidden, ()
        return True
