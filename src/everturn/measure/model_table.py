"""What each model can do and what it costs: one dated table, nothing else decides by model name.

As of 2026-11-15. Sources: api-facts 1.5 (minimum prefix), 1.7 (prices), 1.10 (kept thinking), 4 (tokenizer,
tool-use prompt), 7 and 8 (limits, thinking, prefill). What the sheet marks as unproven carries `assumed` in
the comment beside it. What a request costs is computed in `pricing.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Final

from everturn.measure.model import OLD_TOKENIZER, Model, Price, Rates, Speed, ThinkingMode, rates

__all__ = ["EFFORTS", "MODELS", "Guess", "Model", "Price", "Rates", "Speed", "find_model", "model_or_default"]

EFFORTS: Final = ("low", "medium", "high", "xhigh", "max")
_OLD_EFFORTS: Final = ("low", "medium", "high")
_MILLION: Final = 1_000_000


def _modes(*modes: ThinkingMode) -> frozenset[ThinkingMode]:
    return frozenset(modes)


def _price(input: str, output: str, read_multiplier: str = "0.1") -> tuple[Price, ...]:
    return (Price(rates(input, output, read_multiplier)),)


_FABLE_5 = Model(
    id="claude-fable-5",
    display_name="Claude Fable 5",
    line="fable",
    released=date(2026, 6, 9),
    window=_MILLION,
    max_output=128_000,
    min_cache=512,
    prices=_price("10", "50"),
    thinking=_modes("adaptive"),
    thinks_by_default=True,
    efforts=EFFORTS,
    default_effort="high",
    system_messages=True,
)
_FABLE_5_1 = replace(
    _FABLE_5,
    id="claude-fable-5-1",
    display_name="Claude Fable 5.1",
    released=date(2026, 9, 1),
    prices=_price("10", "50", "0.025"),
    binds_thinking=True,
    forced_tool_choice=False,
)
# Minimum prefix and tool-use prompt of the 5.2 models: assumed.
_FABLE_5_2 = replace(
    _FABLE_5_1,
    id="claude-fable-5-2",
    display_name="Claude Fable 5.2",
    released=date(2026, 11, 9),
    prices=_price("8", "40", "0.025"),
)


def _mythos(fable: Model) -> Model:
    """Mythos models share everything with the Fable of the same number but the name."""
    return replace(
        fable,
        id=fable.id.replace("fable", "mythos"),
        display_name=fable.display_name.replace("Fable", "Mythos"),
        line="mythos",
    )


_MYTHOS_PREVIEW = replace(
    _mythos(_FABLE_5),
    id="claude-mythos-preview",
    display_name="Claude Mythos Preview",
    released=date(2026, 4, 7),
    min_cache=2048,
    # No price on the sheet: assumed to be that of its successor.
    thinking=_modes("adaptive", "enabled"),
    system_messages=False,
)
_OPUS_5 = Model(
    id="claude-opus-5",
    display_name="Claude Opus 5",
    line="opus",
    released=date(2026, 7, 24),
    window=_MILLION,
    max_output=128_000,
    min_cache=512,
    prices=_price("5", "25"),
    fast=rates("10", "50"),
    thinking=_modes("adaptive", "disabled"),
    thinks_by_default=True,
    unthinking_up_to="high",
    efforts=EFFORTS,
    default_effort="high",
    system_messages=True,
)
_OPUS_5_5 = replace(
    _OPUS_5,
    id="claude-opus-5-5",
    display_name="Claude Opus 5.5",
    released=date(2026, 9, 22),
    prices=_price("4", "20", "0.05"),
    fast=rates("8", "40", "0.05"),
    thinking=_modes("adaptive"),
    unthinking_up_to=None,
    default_effort="medium",
    binds_thinking=True,
    forced_tool_choice=False,
)
_OPUS_4_8 = replace(
    _OPUS_5,
    id="claude-opus-4-8",
    display_name="Claude Opus 4.8",
    released=date(2026, 5, 28),
    min_cache=1024,
    thinks_by_default=False,
    unthinking_up_to=None,
    tool_prompt=290,
    tool_prompt_forced=410,
)
_OPUS_4_7 = replace(
    _OPUS_4_8,
    id="claude-opus-4-7",
    display_name="Claude Opus 4.7",
    released=date(2026, 4, 16),
    min_cache=2048,
    fast=None,
    tool_prompt=675,
    tool_prompt_forced=804,
    system_messages=False,
)
_OPUS_4_6 = replace(
    _OPUS_4_7,
    id="claude-opus-4-6",
    display_name="Claude Opus 4.6",
    released=date(2026, 2, 5),
    min_cache=4096,
    chars_per_token=OLD_TOKENIZER,
    thinking=_modes("adaptive", "enabled", "disabled"),
    efforts=("low", "medium", "high", "max"),
    sampling=True,
    tool_prompt=497,
    tool_prompt_forced=589,
    sharp_images=False,
)
_OPUS_4_5 = replace(
    _OPUS_4_6,
    id="claude-opus-4-5",
    aliases=("claude-opus-4-5-20251101",),
    display_name="Claude Opus 4.5",
    released=date(2025, 11, 24),
    window=200_000,
    max_output=64_000,
    thinking=_modes("enabled", "disabled"),
    efforts=_OLD_EFFORTS,
    prefill=True,
    tool_prompt=496,
    tool_prompt_forced=588,
    compacts=False,
    us_surcharge=False,
)
# Kept for recorded sessions; the sheet has no row of theirs but the tool-use prompt (prices: 4.x list price).
_OPUS_4_1 = replace(
    _OPUS_4_5,
    id="claude-opus-4-1",
    aliases=("claude-opus-4-1-20250805",),
    display_name="Claude Opus 4.1",
    released=date(2025, 8, 5),
    max_output=32_000,
    min_cache=1024,
    prices=_price("15", "75"),
    lifecycle="retired",
    keeps_thinking=False,
    efforts=(),
    default_effort=None,
    tool_prompt=313,
    tool_prompt_forced=315,
    refuses_overflow=True,
)
_OPUS_4 = replace(
    _OPUS_4_1,
    id="claude-opus-4-0",
    aliases=("claude-opus-4-20250514", "claude-opus-4"),
    display_name="Claude Opus 4",
    released=date(2025, 5, 22),
)
_SONNET_5 = replace(
    _OPUS_5,
    id="claude-sonnet-5",
    display_name="Claude Sonnet 5",
    line="sonnet",
    released=date(2026, 6, 30),
    min_cache=1024,
    prices=_price("2", "10"),
    fast=None,
    unthinking_up_to=None,
    tool_prompt=354,
    tool_prompt_forced=474,
    system_messages=False,
)
_SONNET_5_5 = replace(
    _SONNET_5,
    id="claude-sonnet-5-5",
    display_name="Claude Sonnet 5.5",
    released=date(2026, 9, 28),
    # 1024: assumed until checked (api-facts 1.5).
    min_cache=1024,
    prices=(Price(rates("2", "10")), Price(rates("2", "10", "0.05"), since=date(2026, 10, 7))),
    thinking=_modes("adaptive", "between_tools"),
    unthinking_up_to="high",
    binds_thinking=True,
    forced_tool_choice=False,
    system_messages=True,
)
_SONNET_4_6 = replace(
    _OPUS_4_6,
    id="claude-sonnet-4-6",
    display_name="Claude Sonnet 4.6",
    line="sonnet",
    released=date(2026, 2, 17),
    min_cache=1024,
    prices=_price("3", "15"),
)
_SONNET_4_5 = replace(
    _OPUS_4_5,
    id="claude-sonnet-4-5",
    aliases=("claude-sonnet-4-5-20250929",),
    display_name="Claude Sonnet 4.5",
    line="sonnet",
    released=date(2025, 9, 29),
    min_cache=1024,
    prices=_price("3", "15"),
    lifecycle="deprecated",
    retires=date(2026, 11, 30),
    keeps_thinking=False,
    efforts=(),
    default_effort=None,
)
_SONNET_4 = replace(
    _SONNET_4_5,
    id="claude-sonnet-4-0",
    aliases=("claude-sonnet-4-20250514", "claude-sonnet-4"),
    display_name="Claude Sonnet 4",
    released=date(2025, 5, 22),
    lifecycle="retired",
    retires=None,
    tool_prompt=313,
    tool_prompt_forced=315,
    refuses_overflow=True,
)
_SONNET_3_7 = replace(
    _SONNET_4,
    id="claude-3-7-sonnet-latest",
    aliases=("claude-3-7-sonnet-20250219",),
    display_name="Claude Sonnet 3.7",
    released=date(2025, 2, 24),
)
_HAIKU_5_5 = replace(
    _OPUS_5,
    id="claude-haiku-5-5",
    display_name="Claude Haiku 5.5",
    line="haiku",
    released=date(2026, 10, 7),
    prices=(Price(rates("0.10", "0.50")), Price(rates("0.50", "2.50"), above_prompt_tokens=100_000)),
    fast=None,
    unthinking_up_to=None,
    default_effort="medium",
    compacts=False,
)
_HAIKU_4_5 = replace(
    _SONNET_4_5,
    id="claude-haiku-4-5",
    aliases=("claude-haiku-4-5-20251001",),
    display_name="Claude Haiku 4.5",
    line="haiku",
    released=date(2025, 10, 15),
    min_cache=4096,
    prices=_price("1", "5"),
    lifecycle="active",
    retires=None,
)
_HAIKU_3_5 = replace(
    _SONNET_4,
    id="claude-3-5-haiku-latest",
    aliases=("claude-3-5-haiku-20241022",),
    display_name="Claude Haiku 3.5",
    line="haiku",
    released=date(2024, 10, 22),
    max_output=8_192,
    min_cache=2048,
    prices=_price("0.80", "4"),
    thinking=_modes("disabled"),
)

MODELS: Final[tuple[Model, ...]] = (
    _FABLE_5_2,
    _mythos(_FABLE_5_2),
    _HAIKU_5_5,
    _SONNET_5_5,
    _OPUS_5_5,
    _FABLE_5_1,
    _mythos(_FABLE_5_1),
    _OPUS_5,
    _SONNET_5,
    _FABLE_5,
    _mythos(_FABLE_5),
    _OPUS_4_8,
    _OPUS_4_7,
    _MYTHOS_PREVIEW,
    _SONNET_4_6,
    _OPUS_4_6,
    _OPUS_4_5,
    _HAIKU_4_5,
    _SONNET_4_5,
    _OPUS_4_1,
    _OPUS_4,
    _SONNET_4,
    _SONNET_3_7,
    _HAIKU_3_5,
)

_BY_ID: Final[Mapping[str, Model]] = {name: model for model in MODELS for name in (model.id, *model.aliases)}


def find_model(id: str) -> Model | None:
    return _BY_ID.get(id)


@dataclass(frozen=True, slots=True)
class Guess:
    """The model to measure with, and what was guessed about it; `guessed` is empty for a known model."""

    model: Model
    guessed: str = ""


def model_or_default(id: str) -> Guess:
    """For measuring only, which goes on and says what it assumed; the twin refuses an unknown model."""
    if (model := find_model(id)) is not None:
        return Guess(model)
    lines = {"haiku": _HAIKU_5_5, "sonnet": _SONNET_5_5, "fable": _FABLE_5_2, "mythos": _mythos(_FABLE_5_2)}
    nearest = next((model for line, model in lines.items() if line in id), _OPUS_5_5)
    return Guess(nearest, f"{id!r} is not in the table of models; measured as {nearest.id}")
