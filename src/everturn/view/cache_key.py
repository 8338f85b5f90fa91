"""What shapes the prompt without being a block, by the section from which it applies (api-facts 1.6)."""

from collections.abc import Mapping
from typing import Any

import msgspec

from everturn.measure.model_table import Model
from everturn.measure.outline import CacheKeySalts
from everturn.view.key_parameters import KeyParameters


def compute_key_salts(model: Model, parameters: KeyParameters) -> CacheKeySalts:
    """An explicit default gives the same key as an omitted field."""
    return CacheKeySalts(
        scope=(model.id, parameters.speed or "standard"),
        messages=(
            _tool_choice(parameters.tool_choice or {}),
            (thinking_mode(model, parameters), (parameters.thinking or {}).get("budget_tokens")),
            parameters.effort or model.default_effort,
            msgspec.json.encode(parameters.extra, order="sorted"),
        ),
        forced_tokens=_forced_tokens(model, parameters.tool_choice or {}),
    )


def thinking_mode(model: Model, parameters: KeyParameters) -> str:
    """How the model thinks: as requested, otherwise its default."""
    usual = "adaptive" if model.thinks_by_default else "disabled"
    return (parameters.thinking or {}).get("type", usual)


def _forced_tokens(model: Model, choice: Mapping[str, Any]) -> int:
    return model.tool_prompt_forced - model.tool_prompt if choice.get("type") in ("any", "tool") else 0


def _tool_choice(choice: Mapping[str, Any]) -> tuple[Any, ...]:
    return choice.get("type", "auto"), choice.get("name"), not choice.get("disable_parallel_tool_use")
