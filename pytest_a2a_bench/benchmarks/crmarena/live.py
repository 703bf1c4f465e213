"""Live orgs of a run: opened and compared with the tasks once, recorded and replayed, one login for all workers.

Where a run has workers, their controller logs in when the first of them asks, and tells all of them the session.
"""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

from pytest_a2a_bench.benchmarks.crmarena.options import CrmOptions
from pytest_a2a_bench.benchmarks.crmarena.org.base import Org
from pytest_a2a_bench.benchmarks.crmarena.org.likeness import check_likeness
from pytest_a2a_bench.benchmarks.crmarena.org.logins import Login, Logins, OwnLogins, remember
from pytest_a2a_bench.benchmarks.crmarena.org.recorded import RecordedOrg, RecordingOrg, place_of
from pytest_a2a_bench.benchmarks.crmarena.org.salesforce import SalesforceOrg
from pytest_a2a_bench.benchmarks.crmarena.org.salesforce_login import read_credentials
from pytest_a2a_bench.benchmarks.crmarena.recordings import recorded_place
from pytest_a2a_bench.benchmarks.crmarena.sources import opening
from pytest_a2a_bench.benchmarks.crmarena.sources.files import org_of
from pytest_a2a_bench.cassettes.form import read_error, write_error
from pytest_a2a_bench.errors import A2ABenchError, AuthenticationError, ConfigurationError, QuotaError
from pytest_a2a_bench.settings import Settings

LASTING = (ConfigurationError, AuthenticationError, QuotaError)
"""What stays so: nobody may log in, or compare an org with its tasks, in vain once more."""

Ask = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def open_live(source: opening.Source, settings: Settings) -> Org:
    """Open an org that is not made of the source's rows, and see that it is the one that the tasks are about.

    :raises ConfigurationError: if it is another one.
    :raises InfrastructureError: if it cannot be asked.
    """
    recorded = recorded_place(source.domain, settings)
    if recorded is not None:
        org: Org = RecordedOrg(recorded, source.schema)
        check_likeness(org, source.schema, opening.count_rows(source))
        return org
    if CrmOptions.of(settings).org != "salesforce":
        raise ConfigurationError(f"--a2a-crm-org={CrmOptions.of(settings).org} has no answers of {source.domain}")
    asked = _CONTROLLER.logins_of(source.domain)
    if asked is not None:
        return _recording(SalesforceOrg(asked, source.schema), source, settings)
    return _open_and_compare(OwnLogins(read_credentials(os.environ)), source, settings)


def _open_and_compare(logins: Logins, source: opening.Source, settings: Settings) -> Org:
    org = _recording(SalesforceOrg(logins, source.schema), source, settings)
    try:
        check_likeness(org, source.schema, opening.count_rows(source))
    except BaseException:
        org.close()
        raise
    return org


def _recording(org: Org, source: opening.Source, settings: Settings) -> Org:
    return RecordingOrg(org, place_of(settings.record, org_of(source.domain))) if settings.record else org


# --- on the controller ------------------------------------------------------------------------------------------------


class LiveOrgs:
    """The controller's side: logs in and compares once, whoever asks. For any number of threads.

    :param settings: of the run.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._logins: OwnLogins | None = None
        self._compared: set[str] = set()
        self._refused: dict[str, A2ABenchError] = {}

    def answer(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer a worker: the session that it may use, or why there is none."""
        try:
            login = self._open(str(question["domain"])).newer_than(int(question["after"]))
        except A2ABenchError as error:
            return {"error": write_error(error)}
        return {"login": list(login)}

    def _open(self, domain: str) -> OwnLogins:
        org = org_of(domain)
        with self._lock:
            if org in self._refused:
                raise copy.copy(self._refused[org])
            try:
                # One login for all orgs, as there is one set of credentials. It stays when a comparison fails:
                # the next question repeats that alone.
                if self._logins is None:
                    self._logins = OwnLogins(read_credentials(os.environ))
                if org not in self._compared:
                    source = opening.open_source(domain, self._settings)
                    _open_and_compare(_Kept(self._logins), source, self._settings).close()
                    self._compared.add(org)
            except LASTING as error:
                self._refused[org] = error
                raise
            return self._logins

    def close(self) -> None:
        """Forget the sessions."""
        if self._logins is not None:
            self._logins.close()


def open_errands(settings: Settings) -> LiveOrgs:
    """Return what the controller of a run does for its workers (``Suite.errands``)."""
    return LiveOrgs(settings)


class _Kept:
    """Logins that stay open when an org is closed that was only looked at."""

    def __init__(self, logins: Logins) -> None:
        self.newer_than = logins.newer_than

    def close(self) -> None:
        pass


# --- in a worker ------------------------------------------------------------------------------------------------------


class _Controller:
    """The way to the controller, where there is one."""

    def __init__(self) -> None:
        self._ask: Ask | None = None

    def ask_through(self, ask: Ask | None) -> None:
        self._ask = ask

    def logins_of(self, domain: str) -> Logins | None:
        return AskedLogins(self._ask, domain) if self._ask is not None else None


class AskedLogins:
    """Sessions of the controller's."""

    def __init__(self, ask: Ask, domain: str) -> None:
        self._ask = ask
        self._domain = domain
        self._lock = threading.Lock()
        self._login: Login | None = None
        self._forget: list[Callable[[], None]] = []

    def newer_than(self, generation: int) -> Login:
        """See :class:`~pytest_a2a_bench.benchmarks.crmarena.org.logins.Logins`."""
        with self._lock:
            if self._login is None or self._login.generation <= generation:
                answer = self._ask({"domain": self._domain, "after": generation})
                if "error" in answer:
                    raise read_error(answer["error"])
                self._login = Login(*answer["login"])
                self._forget.append(remember(self._login))
            return self._login

    def close(self) -> None:
        """See :class:`~pytest_a2a_bench.benchmarks.crmarena.org.logins.Logins`."""
        while self._forget:
            self._forget.pop()()


_CONTROLLER = _Controller()


def ask_through(ask: Ask | None) -> None:
    """Ask the controller from now on, by a function that raises ``InfrastructureError`` if it does not answer."""
    _CONTROLLER.ask_through(ask)
