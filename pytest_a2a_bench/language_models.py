"""LiteLLM as all who ask a language model use it: imported when the first call is made, set up in one way."""

from __future__ import annotations

import functools
import re
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from pytest_a2a_bench import own_models
from pytest_a2a_bench.containment import load_litellm
from pytest_a2a_bench.errors import LLMError, MissingExtraError
from pytest_a2a_bench.model import Usage

GREETING = "Answer with the word ready."
"""What a model is asked before the first trial."""

_REFUSALS = (401, 402, 403, 404)
"""Statuses of a provider that does not let us use a model: the key, what was paid, permission, no such model."""

# Where there is no key at all, LiteLLM tells of an internal server error whose text names the variable.
_NO_KEY = re.compile(r"missing credentials|\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_API_KEY\b", re.IGNORECASE)


def import_litellm(who: str) -> Any:
    """Return the module.

    :param who: what needs it, for the message.
    :raises MissingExtraError: if it is not installed.
    """
    try:
        litellm = load_litellm()
    except ImportError as error:
        raise MissingExtraError("litellm", "tau2", detail=f"{who} needs it") from error
    litellm.suppress_debug_info = True
    litellm.drop_params = True
    return litellm


def limit_rate(
    rate: float, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Let at most so many requests a second leave this process for models."""
    lock, slots = threading.Lock(), [0.0]

    def wait(call: Any) -> None:
        with lock:
            mine = max(clock(), slots[0])
            slots[0] = mine + 1 / rate
        if (left := mine - clock()) > 0:
            sleep(left)

    import_litellm("a rate of requests to models").input_callback.append(wait)  # called in the thread of a request


def cost_of(litellm: Any, response: Any) -> float | None:
    """Return what an answer cost in dollars, or None: a model without a price list is not free."""
    # LiteLLM has often reckoned it already, and then with prices that a proxy's configuration may have of its own.
    hidden = getattr(response, "_hidden_params", None) or {}
    if hidden.get("response_cost") is not None:
        return float(hidden["response_cost"])
    try:
        return float(litellm.completion_cost(response))
    except Exception:
        return None


def usage_of(litellm: Any, response: Any) -> Usage:
    """Return the tokens and dollars of an answer, as far as they are known."""
    used = getattr(response, "usage", None)
    cost = cost_of(litellm, response)
    return Usage(getattr(used, "prompt_tokens", None), getattr(used, "completion_tokens", None), cost)


def describe_failure(error: BaseException) -> str:
    """Return the type of an error and the beginning of its first line: LiteLLM's messages go on with tracebacks."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300] if lines else ''}"


def failed(whose: str, error: Exception) -> LLMError:
    """Make of a model's trouble the error that is reported.

    :param whose: the model, for the message: ``the judge's model 'm'``.
    :param error: what LiteLLM raised; it has ``status_code`` where it knows one.
    """
    status = getattr(error, "status_code", None)
    refused = status in _REFUSALS or (status in (None, 500) and _NO_KEY.search(str(error)) is not None)
    return LLMError(f"{whose} failed: {describe_failure(error)}", refused=refused)


_PASSING = (408, 409, 425, 429)
"""Statuses of a provider that is slow or busy; the next request may be answered."""

_PATIENCE = 20.0
"""Seconds in which a model that is asked for a word has to answer."""


def find_model_problem(model: str, arguments: Mapping[str, Any]) -> str:
    """Ask a model for a word, and return why it cannot be used.

    :returns: one line; empty where it answers or is only slow or busy, and for a function in a model's place.
    :raises MissingExtraError: if LiteLLM is not installed.
    """
    if model.partition("/")[0] in own_models.PROVIDERS:
        return ""
    litellm = import_litellm("a language model")
    try:
        litellm.completion(
            model=model, messages=[{"role": "user", "content": GREETING}], **{"timeout": _PATIENCE, **arguments}
        )
    except Exception as exc:
        error = failed(f"the model {model!r}", exc)
        status = getattr(exc, "status_code", None) or 0
        if status in _PASSING or (status >= 500 and not error.refused and not _is_gone(exc)):
            return ""
        return str(error)
    return ""


def _is_gone(error: BaseException | None) -> bool:
    """Return whether there was no connection; LiteLLM tells of that as of an error that a server answered."""
    return error is not None and (isinstance(error, OSError) or _is_gone(error.__cause__ or error.__context__))


_BUNDLED = "gpt-4"
"""Whose tokenizer comes with LiteLLM; others' may have to be downloaded."""


class PriceList:
    """What LiteLLM knows of a model: its tokenizer and its prices. Loaded when first asked. For several threads.

    :param model: any LiteLLM name.
    :ivar exact: whether the tokens are the model's own; else a common tokenizer counted them.
    """

    def __init__(self, model: str) -> None:
        self.model = model
        self.exact = True
        self._lock = threading.Lock()
        self._tokenizer = ""

    @functools.cached_property
    def _litellm(self) -> Any:
        return import_litellm("agent-model")

    @property
    def words(self) -> str:
        """The model, and whose tokenizer counted, for people."""
        return self.model if self.exact else f"{self.model} (tokens as {_BUNDLED} counts them)"

    def tokens(self, text: str) -> int:
        """Count the tokens of a text.

        :raises MissingExtraError: if LiteLLM is not installed.
        """
        with self._lock:
            if not self._tokenizer:
                self._tokenizer = self._choose()
        return int(self._litellm.token_counter(model=self._tokenizer, text=text))

    def _choose(self) -> str:
        try:
            self._litellm.token_counter(model=self.model, text="a")
        except Exception:  # its tokenizer cannot be had here
            self.exact = False
            return _BUNDLED
        return self.model

    def cost(self, usage: Usage) -> float | None:
        """Return what these tokens cost in dollars; None where the model is in no price list, or none are known."""
        if usage.input_tokens is None and usage.output_tokens is None:
            return None
        try:
            known = self._litellm.get_model_info(self.model)
        except Exception:
            return None
        prices = known.get("input_cost_per_token"), known.get("output_cost_per_token")
        if None in prices:
            return None
        return (usage.input_tokens or 0) * float(prices[0]) + (usage.output_tokens or 0) * float(prices[1])


@functools.lru_cache(maxsize=8)
def price_list(model: str) -> PriceList:
    """Return the process's one for a model."""
    return PriceList(model)
