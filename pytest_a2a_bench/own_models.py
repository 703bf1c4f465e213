"""Users and judges that are functions, offered as models by a custom provider of LiteLLM.

``--a2a-user llm:a2a-user/NAME`` and ``--a2a-judge-llm a2a-judge/NAME`` call the function with the messages that a model
would get. So a benchmark needs to know nothing of it, be it upstream's own evaluator.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pytest_a2a_bench import extensions
from pytest_a2a_bench.errors import A2ABenchError, OwnFunctionError
from pytest_a2a_bench.nearest import did_you_mean

PROVIDERS = {"a2a-user": "users", "a2a-judge": "judges"}
"""What stands before the slash in the name of such a model -> the kind of extension."""


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
    """Return where a function is, or where in its own file an error arose: below are libraries that nobody can mend."""
    code = getattr(function, "__code__", None)
    file = code.co_filename if code is not None else None
    # The first frame is ours.
    frames = traceback.extract_tb(error.__traceback__)[1:] if error is not None else []
    at = next((frame for frame in reversed(frames) if frame.filename == file), frames[-1] if frames else None)
    if at is not None:
        return f" in {at.filename}:{at.lineno} ({at.name})"
    return f" ({file}:{code.co_firstlineno})" if code is not None else ""
