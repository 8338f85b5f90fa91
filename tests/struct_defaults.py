"""What a structure or function has for values that are not given."""

from collections.abc import Iterable
from inspect import signature
from typing import Any

import msgspec


def defaults(made: type, names: Iterable[str]) -> dict[str, Any]:
    if not issubclass(made, msgspec.Struct):
        return {name: signature(made).parameters[name].default for name in names}
    fields = {each.name: each for each in msgspec.structs.fields(made)}
    return {name: default_of(fields[name]) for name in names}


def default_of(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
