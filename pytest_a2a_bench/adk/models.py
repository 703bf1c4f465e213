"""A model by its name: Gemini's as ADK itself calls it, any other as LiteLLM does."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping

from google.adk.models.base_llm import BaseLlm
from google.adk.models.registry import LLMRegistry

from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.language_models import import_litellm

log = logging.getLogger(__name__)

_GOOGLE = re.compile(r"(gemini|gemma)-|(models|projects)/")


KEYS = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
"""Environment variables with a key for Gemini's API; the first that is set is used."""
_VERTEX = ("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE")


def missing_key(name: str, environ: Mapping[str, str]) -> str:
    """Say what a model of Google's needs and the environment has not; empty where nothing is known to be missing."""
    if not _GOOGLE.match(name) or any(environ.get(key, "").strip() for key in (*KEYS, *_VERTEX)):
        return ""
    return (
        f"{name} needs a key, and there is none: set {KEYS[0]} (Gemini's API), or {_VERTEX[0]}=TRUE with "
        "GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION (Vertex AI)"
    )


def resolve(name: str) -> BaseLlm:
    """Return the model.

    :raises ConfigurationError: if the name is none that either knows.
    :raises MissingExtraError: if it takes LiteLLM, and that is not installed.
    """
    if _GOOGLE.match(name):
        if told := missing_key(name, os.environ):
            log.warning("%s", told)
        try:
            return LLMRegistry.new_llm(name)
        except ValueError as error:
            raise ConfigurationError(f"A2A_ADK_MODEL is {name!r}, which ADK does not know: {error}") from error
    if "/" not in name:
        raise ConfigurationError(
            f"A2A_ADK_MODEL is {name!r}; expected a model of Gemini (gemini-2.5-flash), LiteLLM's PROVIDER/NAME "
            "(openai/gpt-4.1, ollama_chat/qwen3)"
        )
    import_litellm("the ADK agent's model")  # as everywhere here: it fetches nothing and reads no .env
    from google.adk.models.lite_llm import LiteLlm  # imports LiteLLM

    return LiteLlm(model=name)
