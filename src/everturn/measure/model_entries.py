"""Users' own models: `[models."name"]` in a configuration, read and checked (CF-6).

An entry changes the row with its name, or describes a new model. A new one says which model it is `based_on`,
or gives its limits and prices; the other values come from that model, or from the nearest one in the table.
Prices are dollars per million tokens.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from difflib import get_close_matches
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from everturn.errors import InputError
from everturn.measure.model import WRITE_1H, WRITE_5M, Model, Price, Rates

if TYPE_CHECKING:
    from everturn.measure.model_table import ModelTable

ModelFieldKind = Literal["tokens", "price", "rate", "switch", "text", "texts"]

_PRICES: Final[Mapping[str, str]] = {
    "input_price": "input",
    "output_price": "output",
    "cache_read_price": "read",
    "cache_write_5m_price": "write_5m",
    "cache_write_1h_price": "write_1h",
}
FIELDS: Final[Mapping[str, ModelFieldKind]] = {
    "based_on": "text",
    "display_name": "text",
    "aliases": "texts",
    "window": "tokens",
    "max_output": "tokens",
    "min_cache": "tokens",
    **dict.fromkeys(_PRICES, cast(ModelFieldKind, "price")),
    "chars_per_token": "rate",
    "keeps_thinking": "switch",
    "binds_thinking": "switch",
    "refuses_overflow": "switch",
    "sharp_images": "switch",
    "us_surcharge": "switch",
    "compacts": "switch",
    "system_messages": "switch",
}
NEEDED_FOR_NEW: Final = ("window", "max_output", "input_price", "output_price")
_ALLOWED: Final[Mapping[ModelFieldKind, str]] = {
    "tokens": "a whole number, 1 or more",
    "price": "a number, 0 or more (dollars per million tokens)",
    "rate": "a number above 0",
    "switch": "true or false",
    "text": "a text",
    "texts": "a list of texts",
}


def add_entries(
    entries: Mapping[str, Mapping[str, Any]], table: "ModelTable", origin: str = ""
) -> tuple[Model, ...]:
    """The models that these entries describe. Raises InputError, which names everything that is wrong."""
    problems = [problem for name, fields in entries.items() for problem in _problems(name, fields)]
    if not problems:
        reading = _Reading(entries, table)
        models = tuple(reading.model(name) for name in entries)
        if not (problems := reading.problems):
            return models
    where = f"{origin}: " if origin else ""
    raise InputError("\n".join(f"{where}{problem}" for problem in dict.fromkeys(problems)))


def _problems(name: str, fields: object) -> Iterator[str]:
    key = f'models."{name}"'
    if not isinstance(fields, Mapping):
        yield f"{key} = {fields!r}, but it is a section with fields such as window."
        return
    for field, value in cast(Mapping[str, Any], fields).items():
        kind = FIELDS.get(field)
        if kind is None:
            near = get_close_matches(field, FIELDS, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"Fields are {', '.join(FIELDS)}."
            yield f"{key}: unknown field {field!r}. {hint}"
        elif not _fits(kind, value):
            yield f"{key}.{field} = {value!r}, allowed is {_ALLOWED[kind]}."


def _fits(kind: ModelFieldKind, value: object) -> bool:
    if kind == "switch":
        return isinstance(value, bool)
    if kind == "text":
        return isinstance(value, str) and bool(value.strip())
    if kind == "texts":
        return isinstance(value, list | tuple) and all(
            isinstance(each, str) for each in cast(Sequence[object], value)
        )
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal) or not isfinite(value):
        return False
    if kind == "tokens":
        return isinstance(value, int) and value >= 1
    return value >= 0 if kind == "price" else value > 0


class _Reading:
    """Turns entries into models; one may be based on another."""

    def __init__(self, entries: Mapping[str, Mapping[str, Any]], table: "ModelTable") -> None:
        self.problems: list[str] = []
        self._entries = entries
        self._table = table
        self._made: dict[str, Model] = {}
        self._open: list[str] = []

    def model(self, name: str) -> Model:
        if name not in self._made:
            self._open.append(name)
            fields = self._entries[name]
            self._made[name] = _changed(self._base(name, fields), name, fields)
            self._open.pop()
        return self._made[name]

    def _base(self, name: str, fields: Mapping[str, Any]) -> Model:
        other, nearest = fields.get("based_on", ""), self._table.find_or_guess(name).model
        if other in self._open and other != name:
            self.problems.append(f'models."{name}".based_on = {other!r}, which is based on {name!r} itself.')
            return nearest
        if other in self._entries and other != name:
            return self.model(other)
        if other:
            return self._table.find(other) or self._unknown(name, other, nearest)
        missing = [field for field in NEEDED_FOR_NEW if field not in fields]
        if self._table.find(name) is None and missing:
            self.problems.append(
                f'models."{name}" is a new model: give based_on = "the name of a known model", or also give '
                f"{', '.join(missing)}."
            )
        return nearest

    def _unknown(self, name: str, other: str, nearest: Model) -> Model:
        known = [model.id for model in (*self._table.rows, *self._table.added)]
        near = get_close_matches(other, known, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"Known models: {', '.join(known)}."
        self.problems.append(f'models."{name}".based_on = {other!r}, which is not in the table. {hint}')
        return nearest


def _changed(base: Model, name: str, fields: Mapping[str, Any]) -> Model:
    is_same = name == base.id or ("based_on" not in fields and name in base.aliases)
    own: dict[str, Any] = {field: fields[field] for field in fields if field not in _PRICES}
    own.pop("based_on", None)
    if "aliases" in own:
        own["aliases"] = tuple(own["aliases"])
    if not is_same:
        own = {"id": name, "display_name": name, "aliases": (), "lifecycle": "active", "retires": None} | own
    if any(field in fields for field in _PRICES):
        own |= {"prices": (Price(_rates(base, fields)),), "fast": None}
    return replace(base, **own)


def _rates(base: Model, fields: Mapping[str, Any]) -> Rates:
    """The prices of an entry. Without its own cache prices they follow the input price: reading as on the
    model that it is based on, writing by the API's factors.
    """
    before = base.rates(on=date.max, prompt_tokens=0)
    given = {rate: _dollars(fields[field]) for field, rate in _PRICES.items() if field in fields}
    if "input" in given:
        share = before.read / before.input if before.input else Decimal(0)
        implied = {
            "read": given["input"] * share,
            "write_5m": given["input"] * WRITE_5M,
            "write_1h": given["input"] * WRITE_1H,
        }
        given = implied | given
    return replace(before, **given)


def _dollars(value: float | Decimal) -> Decimal:
    """A price exactly as written: 0.1 is a tenth, not the nearest binary number."""
    return Decimal(str(value))
