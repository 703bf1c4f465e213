"""Users and judges that are functions: language models to whoever asks them, by LiteLLM's own door for such.

``--a2a-user-llm a2a-user/NAME`` and ``--a2a-judge-llm a2a-judge/NAME`` call the function with the messages that a model
would get. So a benchmark needs to know nothing of it, be it upstream's own evaluator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_a2a_bench import extensions
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
            answer = extensions.load(self._kind, model)(messages, **optional_params)
            message = {"content": answer} if isinstance(answer, str) else dict(answer)
            return litellm.ModelResponse(
                model=model,
                choices=[{"message": {"role": "assistant", **message}, "finish_reason": "stop"}],
                # Functions cost nothing, and tokens that nobody paid for are none.
                usage=litellm.Usage(prompt_tokens=0, completion_tokens=0, total_tokens=0),
            )

    ours = [{"provider": provider, "custom_handler": Own(kind)} for provider, kind in PROVIDERS.items()]
    litellm.custom_provider_map = [*litellm.custom_provider_map, *ours]
