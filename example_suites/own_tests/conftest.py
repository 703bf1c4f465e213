"""What every message to the agent carries, and how often a request may be repeated."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from pytest_a2a_bench import ClientConfig


@pytest.fixture(scope="session")
def a2a_client_config(a2a_client_config: ClientConfig) -> ClientConfig:
    """Repeat no request: this agent is on the same machine."""
    return dataclasses.replace(a2a_client_config, max_retries=0)


@pytest.fixture(scope="session")
def a2a_message_metadata() -> Mapping[str, Any]:
    """Tell the agent whose conversations these are."""
    return {"tenant": "example"}
