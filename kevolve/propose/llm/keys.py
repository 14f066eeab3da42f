"""Keys: is the one that a model needs in the environment? For most providers that is known without litellm, which takes
seconds to import.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kevolve.errors import UsageError

if TYPE_CHECKING:
    from kevolve.config import ProposerConfig

# By litellm's name of a provider, where one variable is all it wants; of several, any.
VARIABLES: dict[str, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "cerebras": ("CEREBRAS_API_KEY",),
    "codestral": ("CODESTRAL_API_KEY",),
    "cohere": ("COHERE_API_KEY",),
    "deepinfra": ("DEEPINFRA_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "fireworks_ai": ("FIREWORKS_AI_API_KEY", "FIREWORKS_API_KEY", "FIREWORKSAI_API_KEY", "FIREWORKS_AI_TOKEN"),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "huggingface": ("HUGGINGFACE_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "nvidia_nim": ("NVIDIA_NIM_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "perplexity": ("PERPLEXITYAI_API_KEY",),
    "replicate": ("REPLICATE_API_KEY",),
    "together_ai": ("TOGETHERAI_API_KEY",),
    "xai": ("XAI_API_KEY",),
}


def key_of(settings: ProposerConfig) -> str | None:
    """The key, if litellm does not find it by itself. UsageError if a variable that was named is not set."""
    if settings.key_variable is not None:
        key = os.environ.get(settings.key_variable)
        if not key:
            raise UsageError(
                f"proposer.key_variable={settings.key_variable}: the environment has no such variable.\n"
                f"  Type export {settings.key_variable}=..., then the command again."
            )
        return key
    # OpenAI's client refuses to be made without a key; a server of one's own seldom wants one.
    return "none" if settings.api_base is not None and not os.environ.get("OPENAI_API_KEY") else None


def check_keys(settings: ProposerConfig, models: Iterable[str]) -> list[str]:
    """UsageError if a key is missing that is known to be needed. Returns the models that only litellm can tell of."""
    if key_of(settings) is not None or settings.api_base is not None:
        return []
    unknown = []
    for model in models:
        variables = VARIABLES.get(model.partition("/")[0])
        if variables is None:
            unknown.append(model)
        elif not any(os.environ.get(name) for name in variables):
            raise missing(model, variables[:1])
    return unknown


def missing(model: str, variables: Iterable[str]) -> UsageError:
    """What is said of variables that are not set."""
    names = list(variables)
    return UsageError(
        f"{model}: the environment lacks {', '.join(names)}. Type export {names[0]}=..., then the command"
        " again.\n  For a server of your own: proposer.api_base=http://HOST:PORT/v1. Keys are never stored."
    )
