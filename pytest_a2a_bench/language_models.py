"""LiteLLM as all who ask a language model use it: imported when the first call is made, set up in one way.

Importing it, or tau2, would load a ``.env`` that python-dotenv finds upwards from where they are installed (maybe
the project's own), download a list of prices, and set where tiktoken keeps its files; :func:`contained_imports` undoes
that.

Users and judges that are functions (``llm:a2a-user/NAME``, ``a2a-judge/NAME``) are offered as models by a custom
provider, which calls the function with the messages that a model would get. So a benchmark needs to know nothing of it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import re
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pytest_a2a_bench import extensions
from pytest_a2a_bench.errors import A2ABenchError, LLMError, MissingExtraError, OwnFunctionError
from pytest_a2a_bench.model import Usage
from pytest_a2a_bench.text import did_you_mean, waiting_for

GREETING = "Answer with the word ready."
"""The question to a model before the first trial."""

_REFUSALS = (401, 402, 403, 404)
"""Statuses of a provider that refuses the model: wrong key, no credit, no permission, no such model."""

# Where there is no key at all, LiteLLM tells of an internal server error whose text names the variable.
_NO_KEY = re.compile(r"missing credentials|\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_API_KEY\b", re.IGNORECASE)


def import_litellm(who: str) -> Any:
    """Return the module.

    :param who: the part of the run that needs it, for the message.
    :raises MissingExtraError: if it is not installed.
    """
    try:
        litellm = load_litellm()
    except ImportError as error:
        raise MissingExtraError("litellm", "tau2", detail=f"{who} needs it") from error
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
    """Return the cost of an answer in dollars, or None: a model without a price list is not free."""
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
    name = type(error).__name__
    # LiteLLM begins its messages with the type, and some with a second one.
    first = re.sub(rf"^(?:litellm\.)?{name}: (?:{name}: )?", "", lines[0]) if lines else ""
    return f"{name}: {first[:300]}"


def failed(whose: str, error: Exception) -> LLMError:
    """Make of a model's trouble the error that is reported.

    :param whose: the model, for the message: ``the judge's model 'm'``.
    :param error: LiteLLM's exception; it has ``status_code`` if it knows one.
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
    if model.partition("/")[0] in PROVIDERS:
        return ""
    try:
        with waiting_for(f"the model {model!r}, which is asked for a word, and LiteLLM, which takes seconds to load"):
            import_litellm("a language model").completion(
                model=model, messages=[{"role": "user", "content": GREETING}], **{"timeout": _PATIENCE, **arguments}
            )
    except MissingExtraError:
        raise
    except Exception as exc:
        error = failed(f"the model {model!r}", exc)
        status = getattr(exc, "status_code", None) or 0
        if status in _PASSING or (status >= 500 and not error.refused and not _is_gone(exc)):
            return ""
        return str(error)
    return ""


def _is_gone(error: BaseException | None) -> bool:
    """Return whether there was no connection; LiteLLM reports that as an error of the server."""
    return error is not None and (isinstance(error, OSError) or _is_gone(error.__cause__ or error.__context__))


_BUNDLED = "gpt-4"
"""Whose tokenizer comes with LiteLLM; others' may have to be downloaded."""


class PriceList:
    """LiteLLM's tokenizer and prices of a model. Loaded at first use, thread-safe.

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
        """Count the tokens of a text; raises MissingExtraError if LiteLLM is not installed."""
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
        """Return the price of tokens in dollars; None if the model is in no price list, or no price list is known."""
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


# --- importing it ---

_NAMES = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "TIKTOKEN_CACHE_DIR": None}
"""Variables that are set inside the block, or by modules imported there, and are as before it afterwards."""


@contextlib.contextmanager
def contained_imports() -> Iterator[None]:
    """Keep imports inside the block from reading ``.env``, using the network or changing the environment.

    Other threads are not affected: files that they load meanwhile are loaded.
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
    """Import LiteLLM without its changes to the process, and with the modules that its first call would import.

    :raises ImportError: if it, or something that it needs, is not installed.
    """
    with contained_imports():
        litellm: Any = importlib.import_module("litellm")
        litellm.suppress_debug_info = True
        # A first call, which is answered in the process, imports modules that warn of LiteLLM's own types. LiteLLM's
        # filters against that end with the test in which it was imported.
        with warnings.catch_warnings(), contextlib.suppress(Exception):
            warnings.simplefilter("ignore")
            litellm.completion(model="gpt-4o", messages=[{"role": "user", "content": "-"}], mock_response="-")
        # Sets TIKTOKEN_CACHE_DIR whenever it is imported; there is none in older versions.
        with contextlib.suppress(ImportError):
            importlib.import_module("litellm.litellm_core_utils.default_encoding")
    serve(litellm)
    return litellm


# --- functions in the place of models ---

PROVIDERS = {"a2a-user": "users", "a2a-judge": "judges"}
"""The prefix before the slash in a model's name -> the kind of extension."""


def read_model(text: str) -> str:
    """Read the name of a model: any of LiteLLM's, or one of our providers with the name of an extension.

    :raises ValueError: if there is no such extension; the message names the nearest.
    """
    provider, _, name = text.partition("/")
    if provider in PROVIDERS:
        kind = PROVIDERS[provider]
        if name not in extensions.names(kind):
            valid = extensions.names(kind)
            near = did_you_mean(name, valid)
            raise ValueError(f"{text!r}: there is no such {kind[:-1]}; valid are: {', '.join(valid) or 'none'}{near}")
    if not text.strip():
        raise ValueError("the value is empty")
    return text


def named(*models: str | None) -> Iterator[tuple[str, str]]:
    """Yield kind and name of the extensions among models."""
    for model in models:
        provider, _, name = (model or "").partition("/")
        if provider in PROVIDERS:
            yield PROVIDERS[provider], name


def serve(litellm: Any) -> None:
    """Let LiteLLM know our providers."""

    class Own(litellm.CustomLLM):  # type: ignore[misc]
        """A provider whose models are functions."""

        def __init__(self, kind: str) -> None:
            super().__init__()
            self._kind = kind

        def completion(
            self, model: str, messages: list[dict[str, Any]], optional_params: Mapping[str, Any], **_: Any
        ) -> Any:
            """Call the function that a model's name stands for."""
            message = _ask(self._kind, model, messages, optional_params)
            return litellm.ModelResponse(
                model=model,
                choices=[{"message": {"role": "assistant", **message}, "finish_reason": "stop"}],
                # Functions cost nothing, and tokens that nobody paid for are none.
                usage=litellm.Usage(prompt_tokens=0, completion_tokens=0, total_tokens=0),
            )

    ours = [{"provider": provider, "custom_handler": Own(kind)} for provider, kind in PROVIDERS.items()]
    litellm.custom_provider_map = [*litellm.custom_provider_map, *ours]
    # Else it makes a lost connection of whatever is raised here, and asks again if configured (num_retries).
    litellm.LITELLM_EXCEPTION_TYPES.append(A2ABenchError)


def _ask(kind: str, name: str, messages: list[dict[str, Any]], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return a function's message.

    :raises ConfigurationError: if there is none of that name, or it cannot be loaded.
    :raises OwnFunctionError: if it raises, or returns neither words nor a message.
    """
    function = extensions.load(kind, name)
    try:
        answer = function(messages, **arguments)
    # What it asks may be another such function.
    except (KeyboardInterrupt, A2ABenchError):
        raise
    # Also what ends a process, or is pytest's own: it is the function's trouble, and no trial's end.
    except BaseException as error:
        what = " ".join(f"raised {type(error).__name__}: {error}".split())
        raise _trouble(kind, name, f"{what}{_place(function, error)}") from error
    if isinstance(answer, str):
        return {"content": answer}
    if isinstance(answer, Mapping):
        return dict(answer)
    what = f"returned {type(answer).__name__}, which is neither words nor a message{_place(function)}"
    raise _trouble(kind, name, what)


def _trouble(kind: str, name: str, what: str) -> OwnFunctionError:
    return OwnFunctionError(
        f"the {extensions.find(kind, name)} {what}; mend the function: it is neither the agent's fault nor a model's"
    )


def _place(function: Callable[..., Any], error: BaseException | None = None) -> str:
    """Return the place of a function, or the last place in its own file of an error's traceback."""
    code = getattr(function, "__code__", None)
    file = code.co_filename if code is not None else None
    # The first frame is ours.
    frames = traceback.extract_tb(error.__traceback__)[1:] if error is not None else []
    at = next((frame for frame in reversed(frames) if frame.filename == file), frames[-1] if frames else None)
    if at is not None:
        return f" in {at.filename}:{at.lineno} ({at.name})"
    return f" ({file}:{code.co_firstlineno})" if code is not None else ""
