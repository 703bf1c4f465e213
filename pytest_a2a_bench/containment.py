"""What importing tau2 or LiteLLM would do to the process around it, undone: environment and network.

Both call python-dotenv's ``load_dotenv`` at import, which looks for a ``.env`` upwards from where they are installed:
with a virtual environment inside the project that is the project's own, and whatever it holds would be set in the
middle of a run. LiteLLM downloads a list of prices at import, and sets where tiktoken keeps its files.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import threading
from collections.abc import Iterator
from typing import Any

from pytest_a2a_bench import own_models

_NAMES = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "TIKTOKEN_CACHE_DIR": None}
"""Variables that are set inside the block, or by what is imported there, and are as before it afterwards."""


@contextlib.contextmanager
def contained_imports() -> Iterator[None]:
    """Let what is imported inside the block read no ``.env``, ask no network and leave the environment as it was.

    Other threads are not affected: what they load meanwhile is loaded.
    """
    before = {name: os.environ.get(name) for name in _NAMES}
    for name, value in _NAMES.items():
        if value is not None:
            os.environ.setdefault(name, value)
    try:
        with _without_dotenv():
            yield
    finally:
        for name, old in before.items():
            if old is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = old


@contextlib.contextmanager
def _without_dotenv() -> Iterator[None]:
    try:
        dotenv = importlib.import_module("dotenv")
    except ImportError:
        yield
        return
    real = dotenv.load_dotenv
    inside: list[int] = [threading.get_ident()]

    def load_dotenv(*args: Any, **kwargs: Any) -> bool:
        # Modules that were imported in the block keep this function: afterwards it is the real one for them as well.
        return False if threading.get_ident() in inside else bool(real(*args, **kwargs))

    dotenv.load_dotenv = load_dotenv  # type: ignore[attr-defined]
    try:
        yield
    finally:
        inside.clear()
        dotenv.load_dotenv = real  # type: ignore[attr-defined]


@functools.cache
def load_litellm() -> Any:
    """Import LiteLLM without what it does to the process, and with what it would import (and do) at its first call.

    :raises ImportError: if it, or something that it needs, is not installed.
    """
    with contained_imports():
        litellm = importlib.import_module("litellm")
        # Sets TIKTOKEN_CACHE_DIR whenever it is imported; there is none in older versions.
        with contextlib.suppress(ImportError):
            importlib.import_module("litellm.litellm_core_utils.default_encoding")
    own_models.serve(litellm)
    return litellm
