"""The properties of a model: limits, prices and behaviour, as one value.

The values themselves, with their date and sources, are in `model_table.py`.
"""

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Final, Literal

ModelFamily = Literal["haiku", "sonnet", "opus", "fable", "mythos"]
Speed = Literal["standard", "fast"]
ThinkingMode = Literal["enabled", "adaptive", "disabled", "between_tools"]
Lifecycle = Literal["active", "deprecated", "retired"]

# Multipliers on the input price; the read multiplier differs per model (api-facts 1.7).
WRITE_5M: Final = Decimal("1.25")
WRITE_1H: Final = Decimal(2)

US_ONLY: Final = Decimal("1.1")
BATCH: Final = Decimal("0.5")

# Average characters of English text per token: 680k in 200k before, 2.5M in 1M since 4.7 (api-facts 4).
OLD_TOKENIZER: Final = 3.4
NEW_TOKENIZER: Final = 2.5


@dataclass(frozen=True, slots=True)
class Rates:
    """Dollars per million tokens."""

    input: Decimal
    output: Decimal
    read: Decimal
    write_5m: Decimal
    write_1h: Decimal

    def times(self, factor: Decimal) -> "Rates":
        return Rates(
            self.input * factor,
            self.output * factor,
            self.read * factor,
            self.write_5m * factor,
            self.write_1h * factor,
        )


def rates(input: str, output: str, read_multiplier: str = "0.1") -> Rates:
    base = Decimal(input)
    return Rates(base, Decimal(output), base * Decimal(read_multiplier), base * WRITE_5M, base * WRITE_1H)


@dataclass(frozen=True, slots=True)
class Price:
    """Rates, and the date and the prompt size from which they apply."""

    rates: Rates
    above_prompt_tokens: int = -1
    since: date = date.min


@dataclass(frozen=True, slots=True)
class Model:
    id: str
    display_name: str
    line: ModelFamily
    released: date
    window: int
    max_output: int
    min_cache: int
    # The last price whose conditions are met applies.
    prices: tuple[Price, ...]
    fast: Rates | None = None
    aliases: tuple[str, ...] = ()
    lifecycle: Lifecycle = "active"
    retires: date | None = None
    chars_per_token: float = NEW_TOKENIZER
    thinking: frozenset[ThinkingMode] = frozenset()
    thinks_by_default: bool = False
    # Thinking can be switched off only up to this effort; None if no such rule is known.
    unthinking_up_to: str | None = None
    # Keeps the thinking of all turns, not only of the last one (api-facts 1.10).
    keeps_thinking: bool = True
    binds_thinking: bool = False
    efforts: tuple[str, ...] = ()
    default_effort: str | None = None
    prefill: bool = False
    sampling: bool = False
    forced_tool_choice: bool = True
    # Hidden tool-use prompt: with tool_choice auto or none, and with any or tool.
    tool_prompt: int = 286
    tool_prompt_forced: int = 406
    compacts: bool = True
    system_messages: bool = False
    # Input plus max_tokens beyond the window is an error, not a shorter answer (before 4.5, api-facts 5).
    refuses_overflow: bool = False
    # Large images cost up to 4,784 tokens instead of 1,568 (api-facts 4).
    sharp_images: bool = True
    # `inference_geo: "us"` costs extra (4.6 and later, api-facts 1.7).
    us_surcharge: bool = True

    def rates(self, *, on: date, prompt_tokens: int, speed: Speed = "standard") -> Rates:
        if speed == "fast" and self.fast is not None:
            return self.fast
        holding = [p for p in self.prices if on >= p.since and prompt_tokens > p.above_prompt_tokens]
        return holding[-1].rates
