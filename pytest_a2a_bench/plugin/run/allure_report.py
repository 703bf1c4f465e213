"""Our properties in Allure: parameters of the test that is running, and its transcript as an attachment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest


def is_written(config: pytest.Config) -> bool:
    """Return whether Allure's results are written in this process."""
    return config.pluginmanager.has_plugin("allure_listener")


def tell(values: Mapping[str, Any], transcript: str | None) -> None:
    """Add to the test that is running.

    :param transcript: file to attach; None for none.
    """
    import allure  # a package that is not ours, and that is loaded already where this is called

    for name, value in values.items():
        # By its parameters Allure knows a test again: what an agent makes of it is none of those.
        allure.dynamic.parameter(name, value, excluded=True)
    if transcript and Path(transcript).is_file():
        allure.attach.file(transcript, name="transcript", attachment_type=allure.attachment_type.JSON)
