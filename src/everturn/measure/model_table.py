"""What each model can do and what it costs: one dated table. No other code of the engine decides
by model name.

As of 2026-11-15. Sources: api-facts 1.5 (minimum prefix), 1.7 (prices), 1.10 (kept thinking), 4 (tokenizer,
tool-use prompt), 7 and 8 (limits, thinking, prefill). Assumed, because no source was found: the minimum
prefix of Sonnet 5.5 and of the 5.2 models, the tool-use prompt of the 5.1, 5.2 and 5.5 models, the price of
Mythos Preview (that of its successor). Models before 4.5 are here for recorded sessions; for them the sources
have only the tool-use prompt, and prices are the 4.x list prices.

Users add rows and override them: `model_entries.py`. What a request costs: `pricing.py`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final, cast, get_args

from everturn.measure.model import (
    NEW_TOKENIZER,
    OLD_TOKENIZER,
    Lifecycle,
    Model,
    ModelFamily,
    Price,
    Rates,
    Speed,
    ThinkingMode,
    rates,
)
from everturn.measure.model_entries import add_entries

__all__ = [
    "DEFAULT_MODEL_TABLE", "EFFORTS", "MODELS", "Guess", "Model", "ModelTable", "Price", "Rates", "Speed",
    "find_model", "find_named", "has_known_price", "model_or_default",
]  # fmt: skip

EFFORTS: Final = ("low", "medium", "high", "xhigh", "max")

# Newest first. Tokens: window, longest answer, shortest prefix that is cached. Dollars per million tokens:
# input and output; reading from the cache as a factor of the input price. The hidden tool-use prompt in
# tokens: with tool_choice auto or none, and with any or tool.
_LIMITS_AND_PRICES: Final = """
id                       | released   |    window |  output | cache | input | output |  read | prompt
claude-fable-5-2         | 2026-11-09 | 1_000_000 | 128_000 |   512 |     8 |     40 | 0.025 | 286 406
claude-mythos-5-2        | 2026-11-09 | 1_000_000 | 128_000 |   512 |     8 |     40 | 0.025 | 286 406
claude-haiku-5-5         | 2026-10-07 | 1_000_000 | 128_000 |   512 |  0.10 |   0.50 |   0.1 | 286 406
claude-sonnet-5-5        | 2026-09-28 | 1_000_000 | 128_000 |  1024 |     2 |     10 |   0.1 | 354 474
claude-opus-5-5          | 2026-09-22 | 1_000_000 | 128_000 |   512 |     4 |     20 |  0.05 | 286 406
claude-fable-5-1         | 2026-09-01 | 1_000_000 | 128_000 |   512 |    10 |     50 | 0.025 | 286 406
claude-mythos-5-1        | 2026-09-01 | 1_000_000 | 128_000 |   512 |    10 |     50 | 0.025 | 286 406
claude-opus-5            | 2026-07-24 | 1_000_000 | 128_000 |   512 |     5 |     25 |   0.1 | 286 406
claude-sonnet-5          | 2026-06-30 | 1_000_000 | 128_000 |  1024 |     2 |     10 |   0.1 | 354 474
claude-fable-5           | 2026-06-09 | 1_000_000 | 128_000 |   512 |    10 |     50 |   0.1 | 286 406
claude-mythos-5          | 2026-06-09 | 1_000_000 | 128_000 |   512 |    10 |     50 |   0.1 | 286 406
claude-opus-4-8          | 2026-05-28 | 1_000_000 | 128_000 |  1024 |     5 |     25 |   0.1 | 290 410
claude-opus-4-7          | 2026-04-16 | 1_000_000 | 128_000 |  2048 |     5 |     25 |   0.1 | 675 804
claude-mythos-preview    | 2026-04-07 | 1_000_000 | 128_000 |  2048 |    10 |     50 |   0.1 | 286 406
claude-sonnet-4-6        | 2026-02-17 | 1_000_000 | 128_000 |  1024 |     3 |     15 |   0.1 | 497 589
claude-opus-4-6          | 2026-02-05 | 1_000_000 | 128_000 |  4096 |     5 |     25 |   0.1 | 497 589
claude-opus-4-5          | 2025-11-24 |   200_000 |  64_000 |  4096 |     5 |     25 |   0.1 | 496 588
claude-haiku-4-5         | 2025-10-15 |   200_000 |  64_000 |  4096 |     1 |      5 |   0.1 | 496 588
claude-sonnet-4-5        | 2025-09-29 |   200_000 |  64_000 |  1024 |     3 |     15 |   0.1 | 496 588
claude-opus-4-1          | 2025-08-05 |   200_000 |  32_000 |  1024 |    15 |     75 |   0.1 | 313 315
claude-opus-4-0          | 2025-05-22 |   200_000 |  32_000 |  1024 |    15 |     75 |   0.1 | 313 315
claude-sonnet-4-0        | 2025-05-22 |   200_000 |  64_000 |  1024 |     3 |     15 |   0.1 | 313 315
claude-3-7-sonnet-latest | 2025-02-24 |   200_000 |  64_000 |  1024 |     3 |     15 |   0.1 | 313 315
claude-3-5-haiku-latest  | 2024-10-22 |   200_000 |   8_192 |  2048 |  0.80 |      4 |   0.1 | 313 315
"""

# Tokenizer; ways of thinking; the highest effort at which thinking can be off; number of efforts, and the
# default one. Then, marked by x:
#   t thinks_by_default   k keeps_thinking   b binds_thinking   p prefill            s sampling
#   f forced_tool_choice  c compacts         m system_messages  o refuses_overflow   i sharp_images
#   u us_surcharge
_HABITS: Final = """
id                       | tok | thinking                  | off  | efforts  | t k b p s f c m o i u
claude-fable-5-2         | new | adaptive                  | -    | 5 high   | x x x - - - x x - x x
claude-mythos-5-2        | new | adaptive                  | -    | 5 high   | x x x - - - x x - x x
claude-haiku-5-5         | new | adaptive disabled         | -    | 5 medium | x x - - - x - x - x x
claude-sonnet-5-5        | new | adaptive between_tools    | high | 5 high   | x x x - - - x x - x x
claude-opus-5-5          | new | adaptive                  | -    | 5 medium | x x x - - - x x - x x
claude-fable-5-1         | new | adaptive                  | -    | 5 high   | x x x - - - x x - x x
claude-mythos-5-1        | new | adaptive                  | -    | 5 high   | x x x - - - x x - x x
claude-opus-5            | new | adaptive disabled         | high | 5 high   | x x - - - x x x - x x
claude-sonnet-5          | new | adaptive disabled         | -    | 5 high   | x x - - - x x - - x x
claude-fable-5           | new | adaptive                  | -    | 5 high   | x x - - - x x x - x x
claude-mythos-5          | new | adaptive                  | -    | 5 high   | x x - - - x x x - x x
claude-opus-4-8          | new | adaptive disabled         | -    | 5 high   | - x - - - x x x - x x
claude-opus-4-7          | new | adaptive disabled         | -    | 5 high   | - x - - - x x - - x x
claude-mythos-preview    | new | adaptive enabled          | -    | 5 high   | x x - - - x x - - x x
claude-sonnet-4-6        | old | adaptive enabled disabled | -    | 4 high   | - x - - x x x - - - x
claude-opus-4-6          | old | adaptive enabled disabled | -    | 4 high   | - x - - x x x - - - x
claude-opus-4-5          | old | enabled disabled          | -    | 3 high   | - x - x x x - - - - -
claude-haiku-4-5         | old | enabled disabled          | -    | 0 -      | - - - x x x - - - - -
claude-sonnet-4-5        | old | enabled disabled          | -    | 0 -      | - - - x x x - - - - -
claude-opus-4-1          | old | enabled disabled          | -    | 0 -      | - - - x x x - - x - -
claude-opus-4-0          | old | enabled disabled          | -    | 0 -      | - - - x x x - - x - -
claude-sonnet-4-0        | old | enabled disabled          | -    | 0 -      | - - - x x x - - x - -
claude-3-7-sonnet-latest | old | enabled disabled          | -    | 0 -      | - - - x x x - - x - -
claude-3-5-haiku-latest  | old | disabled                  | -    | 0 -      | - - - x x x - - x - -
"""
_FLAGS: Final = (
    "thinks_by_default", "keeps_thinking", "binds_thinking", "prefill", "sampling", "forced_tool_choice",
    "compacts", "system_messages", "refuses_overflow", "sharp_images", "us_surcharge",
)  # fmt: skip
_EFFORTS_BY_COUNT: Final[Mapping[int, tuple[str, ...]]] = {
    0: (), 3: EFFORTS[:3], 4: (*EFFORTS[:3], "max"), 5: EFFORTS,
}  # fmt: skip

# Prices that apply from a date or from a prompt size on, and those of the fast mode.
_LATER_PRICES: Final[Mapping[str, Price]] = {
    "claude-haiku-5-5": Price(rates("0.50", "2.50"), above_prompt_tokens=100_000),
    "claude-sonnet-5-5": Price(rates("2", "10", "0.05"), since=date(2026, 10, 7)),
}
_FAST_RATES: Final[Mapping[str, Rates]] = {
    "claude-opus-5-5": rates("8", "40", "0.05"),
    "claude-opus-5": rates("10", "50"),
    "claude-opus-4-8": rates("10", "50"),
}
_ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "claude-opus-4-5": ("claude-opus-4-5-20251101",),
    "claude-haiku-4-5": ("claude-haiku-4-5-20251001",),
    "claude-sonnet-4-5": ("claude-sonnet-4-5-20250929",),
    "claude-opus-4-1": ("claude-opus-4-1-20250805",),
    "claude-opus-4-0": ("claude-opus-4-20250514", "claude-opus-4"),
    "claude-sonnet-4-0": ("claude-sonnet-4-20250514", "claude-sonnet-4"),
    "claude-3-7-sonnet-latest": ("claude-3-7-sonnet-20250219",),
    "claude-3-5-haiku-latest": ("claude-3-5-haiku-20241022",),
}
_DEPRECATED: Final[Mapping[str, date]] = {"claude-sonnet-4-5": date(2026, 11, 30)}
_RETIRED: Final = frozenset(
    {
        "claude-opus-4-1", "claude-opus-4-0", "claude-sonnet-4-0", "claude-3-7-sonnet-latest",
        "claude-3-5-haiku-latest",
    }
)  # fmt: skip

# What follows an id inside a longer name: no further version, though perhaps a date.
_END_OF_ID: Final = r"(?:(?=[-@]\d{8})|(?!-?\d))"


def _rows(table: str) -> Iterator[list[str]]:
    """The cells of each row below the header."""
    return ([cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()[1:])


def _limits_and_prices(cells: list[str]) -> dict[str, Any]:
    id, released, window, output, cache, input_price, output_price, read, prompt = cells
    first = Price(rates(input_price, output_price, read))
    later = (_LATER_PRICES[id],) if id in _LATER_PRICES else ()
    tool_prompt, tool_prompt_forced = map(int, prompt.split())
    return {
        "released": date.fromisoformat(released),
        "window": int(window),
        "max_output": int(output),
        "min_cache": int(cache),
        "prices": (first, *later),
        "tool_prompt": tool_prompt,
        "tool_prompt_forced": tool_prompt_forced,
    }


def _habits(cells: list[str]) -> dict[str, Any]:
    tokenizer, thinking, off, efforts, flags = cells
    count, default = efforts.split()
    return {
        "chars_per_token": NEW_TOKENIZER if tokenizer == "new" else OLD_TOKENIZER,
        "thinking": cast(frozenset[ThinkingMode], frozenset(thinking.split())),
        "unthinking_up_to": None if off == "-" else off,
        "efforts": _EFFORTS_BY_COUNT[int(count)],
        "default_effort": None if default == "-" else default,
        **dict(zip(_FLAGS, (flag == "x" for flag in flags.split()), strict=True)),
    }


def _family(id: str) -> ModelFamily:
    return next(family for family in get_args(ModelFamily) if family in id)


def _display_name(id: str) -> str:
    """`claude-opus-4-5` is Claude Opus 4.5, `claude-3-7-sonnet-latest` Claude Sonnet 3.7."""
    words = [word for word in id.split("-") if word not in ("claude", "latest")]
    version = ".".join(word for word in words if word.isdigit()).removesuffix(".0")
    names = (word.capitalize() for word in words if not word.isdigit())
    return " ".join(("Claude", *names, version)).strip()


def _lifecycle(id: str) -> Lifecycle:
    if id in _RETIRED:
        return "retired"
    return "deprecated" if id in _DEPRECATED else "active"


def _models() -> Iterator[Model]:
    habits = {cells[0]: cells[1:] for cells in _rows(_HABITS)}
    for cells in _rows(_LIMITS_AND_PRICES):
        id = cells[0]
        yield Model(
            id=id,
            display_name=_display_name(id),
            line=_family(id),
            fast=_FAST_RATES.get(id),
            aliases=_ALIASES.get(id, ()),
            lifecycle=_lifecycle(id),
            retires=_DEPRECATED.get(id),
            **_limits_and_prices(cells),
            **_habits(habits[id]),
        )


MODELS: Final[tuple[Model, ...]] = tuple(_models())


@dataclass(frozen=True, slots=True)
class Guess:
    """The model to measure with, and what was guessed about it; `guessed` is empty for a known model."""

    model: Model
    guessed: str = ""


@dataclass(frozen=True)
class ModelTable:
    """Models by id and alias. `added` are a user's: they override rows with the same name (CF-6)."""

    rows: tuple[Model, ...] = MODELS
    added: tuple[Model, ...] = ()
    _by_name: dict[str, Model] = field(
        init=False, compare=False, repr=False, default_factory=dict[str, Model]
    )

    def __post_init__(self) -> None:
        for model in (*self.rows, *self.added):
            self._by_name.update(dict.fromkeys((model.id, *model.aliases), model))

    def extended(self, entries: Mapping[str, Mapping[str, Any]], *, origin: str = "") -> "ModelTable":
        """A table with a user's entries: a name, and the fields of `[models."name"]`. Raises InputError,
        which names every wrong field and value, and what is allowed; `origin` says where the entries are.
        """
        return ModelTable(self.rows, (*self.added, *add_entries(entries, self, origin)))

    def find(self, name: str) -> Model | None:
        return self._by_name.get(name)

    def find_named(self, name: str) -> Model | None:
        """The model of this name, also if it is the name that another provider gives it."""
        return self.find(name) or self._contained_in(name)

    def find_or_guess(self, name: str) -> Guess:
        """For measuring only, which continues with an assumption and reports it; the twin refuses an unknown
        model.
        """
        if (model := self.find(name)) is not None:
            return Guess(model)
        nearest = self._contained_in(name) or self._newest_of_family(name)
        return Guess(nearest, f"{name!r} is not in the table of models; measured as {nearest.id}")

    def _contained_in(self, name: str) -> Model | None:
        """The model whose id is in the name that another provider gives it: `anthropic/claude-opus-4.5`,
        `us.anthropic.claude-opus-4-6-v1:0`.
        """
        spelled = name.replace(".", "-")
        known = [each for each in self._by_name if re.search(re.escape(each) + _END_OF_ID, spelled)]
        return self._by_name[max(known, key=len)] if known else None

    def _newest_of_family(self, name: str) -> Model:
        family = next((each for each in get_args(ModelFamily) if each in name), "opus")
        return next(model for model in self.rows if model.line == family)


DEFAULT_MODEL_TABLE: Final = ModelTable()

# The table of this process: the default one, and the user's rows once the configuration is loaded. Prices and
# windows are looked up in many places that know only a model's name.
_table = DEFAULT_MODEL_TABLE


def add_models(entries: Mapping[str, Mapping[str, Any]], *, origin: str = "") -> None:
    """Use a user's rows from now on, everywhere in this process (CF-6). Raises InputError."""
    global _table
    _table = DEFAULT_MODEL_TABLE.extended(entries, origin=origin)


def find_model(name: str) -> Model | None:
    return _table.find(name)


def find_named(name: str) -> Model | None:
    return _table.find_named(name)


def has_known_price(name: str) -> bool:
    """Whether the price is that of this model, and not that of the nearest one."""
    return _table.find_named(name) is not None


def model_or_default(name: str) -> Guess:
    return _table.find_or_guess(name)
