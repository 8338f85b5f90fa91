"""Options as JSON: `everturn twin --options FILE`, and what `everturn twin verify` writes."""

from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any, Final, get_type_hints

import msgspec

from everturn.errors import InputError
from everturn.twin.options import TwinOptions

# A function cannot be written in JSON; the command `everturn twin` always marks practice.
_NOT_IN_FILES: Final = frozenset(("counter", "marks_practice"))
OPTION_NAMES: Final = tuple(field.name for field in fields(TwinOptions) if field.name not in _NOT_IN_FILES)


def read_options(given: Mapping[str, Any]) -> TwinOptions:
    """The options in a JSON object; raises InputError that names the option, its value and what to do."""
    types = get_type_hints(TwinOptions)
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in OPTION_NAMES:
            near = get_close_matches(name, OPTION_NAMES, n=1)
            hint = f" Did you mean {near[0]}?" if near else " docs/twin.md lists all options."
            raise InputError(f"{name!r:.80} is not an option of the twin.{hint}")
        try:
            values[name] = msgspec.convert(value, type=types[name])
        except (msgspec.ValidationError, TypeError) as problem:
            raise InputError(f"The option {name} cannot be {value!r:.80}: {problem}") from None
    return TwinOptions(**values)
