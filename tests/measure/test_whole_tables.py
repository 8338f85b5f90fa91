"""The tables of models, tools and providers: every value of every row, as recorded.

Set EVERTURN_WRITE_GOLDEN=1 to write the files again; then compare every line of the difference with the
source of the new value.
"""

from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path

import msgspec
from decide.summary.test_whole_summaries import check

from everturn.measure.capabilities import PROVIDERS
from everturn.measure.model import Model, Price, Rates
from everturn.measure.model_table import MODELS
from everturn.measure.tool_table import ROWS

GOLDEN = Path(__file__).with_name("golden")


def spelled(value: object) -> str:
    match value:
        case Rates():
            return " ".join(f"{getattr(value, each.name).normalize():f}" for each in fields(Rates))
        case Price():
            return f"{spelled(value.rates)} (above {value.above_prompt_tokens}, since {value.since})"
        case frozenset():
            return " ".join(sorted(map(str, value)))
        case tuple():
            return ", ".join(map(spelled, value))
        case msgspec.Struct():
            return " ".join(spelled(each) for each in msgspec.structs.astuple(value))
        case _:
            return str(value)


def row_lines(title: str, row: object, names: Iterable[str]) -> Iterator[str]:
    """What is empty or switched off is left out."""
    yield title
    for name in names:
        if value := getattr(row, name):
            yield f"    {name}: {spelled(value)}".rstrip()


def model_lines(model: Model) -> Iterator[str]:
    return row_lines(model.id, model, [each.name for each in fields(model)[1:]])


def struct_lines(title: str, row: msgspec.Struct) -> Iterator[str]:
    return row_lines(title, row, row.__struct_fields__)


def test_every_model_has_the_recorded_limits_prices_and_habits():
    lines = (line for model in MODELS for line in model_lines(model))
    check(str(GOLDEN / "models.txt"), "\n".join(lines) + "\n")


def test_every_row_of_tools_says_what_is_recorded():
    lines = (line for row in ROWS for line in struct_lines(row.names[0], row))
    check(str(GOLDEN / "tools.txt"), "\n".join(lines) + "\n")


def test_every_provider_can_do_what_is_recorded():
    lines = (line for name, row in PROVIDERS.items() for line in struct_lines(name, row))
    check(str(GOLDEN / "providers.txt"), "\n".join(lines) + "\n")
