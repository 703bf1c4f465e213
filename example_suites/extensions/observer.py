"""An observer of our own: a log record for each trial that ended, with its number of turns."""

from __future__ import annotations

import logging

from pytest_a2a_bench.model import TrialResult
from pytest_a2a_bench.trials.trial import Trial, TrialObserver


class Logged(TrialObserver):
    """Logs the end of each trial."""

    def after_trial(self, trial: Trial, result: TrialResult | None) -> None:
        """Log how it ended."""
        if result is not None:
            logging.getLogger("trials").warning("%s: %s after %s turns", trial.key, result.status, result.turns)


LOGGED = Logged()
