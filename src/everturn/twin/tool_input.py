"""Generate a plausible input for a tool call that matches the tool's schema.

The schema decides the shape; the name of a property decides the value (a path from the conversation, a word
of the prompt, a command). Rare JSON Schema keywords such as `pattern`, `not` and `if` are ignored: the value
then has the right type, and the tool may reject it.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from everturn.wire.json_values import as_object, is_list, is_object

MAX_DEPTH: Final = 6
DEFAULT_PATH: Final = "src/app.py"
OPTIONAL_CHANCE: Final = 0.25


@dataclass(frozen=True, slots=True)
class InputHints:
    """Paths and words from the conversation, to use as values."""

    paths: Sequence[str] = ()
    words: Sequence[str] = ()


# Parts of property names, and a value for them. The first row with a part of the name is used.
_VALUES: Final[tuple[tuple[tuple[str, ...], str], ...]] = (
    (("url", "uri", "link"), "https://example.com/docs"),
    (("command", "cmd", "script"), "python -m pytest -q"),
    (("old_str", "old_text", "search_text"), "return None"),
    (("new_str", "new_text", "replace"), "return result"),
    (("content", "body", "code", "source", "file_text"), "def run() -> int:\n    return 0\n"),
    (("date", "day"), "2026-11-15"),
    (("email",), "someone@example.com"),
    (("description", "reason", "explanation", "summary"), "Look at what is there"),
    (("language",), "python"),
    (("timezone",), "UTC"),
)
_FORMATS: Final = {
    "date": "2026-11-15",
    "date-time": "2026-11-15T00:00:00Z",
    "time": "00:00:00Z",
    "email": "someone@example.com",
    "uri": "https://example.com/docs",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "127.0.0.1",
    "hostname": "example.com",
}
# Tools defined by Anthropic have no schema in the request; these are inputs that their clients accept.
_BUILT_IN: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("bash_", {"command": "ls -la"}),
    ("text_editor_", {"command": "view", "path": DEFAULT_PATH}),
    ("memory_", {"command": "view", "path": "/memories"}),
    ("computer_", {"action": "screenshot"}),
)


def built_in_input(kind: str) -> dict[str, Any] | None:
    return next((dict(made) for prefix, made in _BUILT_IN if kind.startswith(prefix)), None)


def generate_input(schema: Mapping[str, Any], hints: InputHints, rng: random.Random) -> dict[str, Any]:
    """An object that matches the schema of a tool."""
    return as_object(_InputGenerator(schema, hints, rng).value("", schema, 0))


@dataclass(frozen=True, slots=True)
class _InputGenerator:
    root: Mapping[str, Any]
    hints: InputHints
    rng: random.Random

    def value(self, name: str, schema: Any, depth: int) -> Any:
        schema = self._resolve(schema)
        if "const" in schema:
            return schema["const"]
        if isinstance(schema.get("enum"), list) and schema["enum"]:
            return self.rng.choice(schema["enum"])
        if depth > MAX_DEPTH:
            return None
        return self._typed(_type_of(schema), name, schema, depth)

    def _typed(self, kind: str, name: str, schema: Mapping[str, Any], depth: int) -> Any:
        match kind:
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._array(name, schema, depth)
            case "integer" | "number":
                return _number(kind, schema, self.rng)
            case "boolean":
                return schema.get("default", False)
            case "null":
                return None
            case _:
                return self._string(name, schema)

    def _resolve(self, schema: Any) -> Mapping[str, Any]:
        """The schema after references and alternatives are resolved. A boolean schema allows anything."""
        for _ in range(MAX_DEPTH):
            if not is_object(schema):
                return {}
            if isinstance(reference := schema.get("$ref"), str):
                schema = self._resolve_reference(reference)
            elif alternatives := _alternatives(schema):
                schema = alternatives[0]
            elif is_list(parts := schema.get("allOf")):
                schema = _merge([self._resolve(part) for part in parts])
            else:
                return schema
        return {}

    def _resolve_reference(self, reference: str) -> Any:
        found: Any = self.root
        for step in reference.removeprefix("#").strip("/").split("/"):
            found = as_object(found).get(step, {})
        return found

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        properties = as_object(schema.get("properties"))
        required = schema.get("required")
        required = [str(name) for name in required] if is_list(required) else []
        made = {name: self.value(name, properties.get(name, {}), depth + 1) for name in required}
        for name in properties:
            if name not in made and depth == 0 and self.rng.random() < OPTIONAL_CHANCE:
                made[name] = self.value(name, properties[name], depth + 1)
        return made

    def _array(self, name: str, schema: Mapping[str, Any], depth: int) -> list[Any]:
        minimum = _whole(schema.get("minItems"), 1)
        maximum = max(minimum, _whole(schema.get("maxItems"), max(minimum, 2)))
        count = min(self.rng.randint(max(minimum, min(1, maximum)), maximum), 8 if minimum <= 8 else minimum)
        made = [self.value(name, schema.get("items", {}), depth + 1) for _ in range(count)]
        return made if not schema.get("uniqueItems") else _remove_duplicates(made)

    def _string(self, name: str, schema: Mapping[str, Any]) -> str:
        made = _FORMATS.get(str(schema.get("format"))) or self._value_for(name.lower())
        minimum, maximum = _whole(schema.get("minLength"), 0), _whole(schema.get("maxLength"), 10_000)
        return made.ljust(minimum, "x")[: max(minimum, maximum)]

    def _value_for(self, name: str) -> str:
        if any(part in name for part in ("path", "file", "dir", "folder")):
            return self.rng.choice(list(self.hints.paths)[-5:]) if self.hints.paths else DEFAULT_PATH
        for parts, made in _VALUES:
            if any(part in name for part in parts):
                return made
        return self.rng.choice(list(self.hints.words)) if self.hints.words else "main"


def _type_of(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if is_list(kind):
        kind = next((one for one in kind if one != "null"), "null")
    if isinstance(kind, str):
        return kind
    return "object" if "properties" in schema else "array" if "items" in schema else "string"


def _alternatives(schema: Mapping[str, Any]) -> list[Any]:
    options = schema.get("anyOf") or schema.get("oneOf")
    if not is_list(options):
        return []
    return [one for one in options if as_object(one).get("type") != "null"] or options


def _merge(parts: list[Mapping[str, Any]]) -> dict[str, Any]:
    merged: dict[str, Any] = {"properties": {}, "required": []}
    for part in parts:
        merged = {
            **merged,
            **part,
            "properties": merged["properties"] | dict(part.get("properties") or {}),
            "required": [*merged["required"], *(part.get("required") or ())],
        }
    return (
        merged
        if merged["properties"]
        else {k: v for k, v in merged.items() if k not in ("properties", "required")}
    )


def _number(kind: str, schema: Mapping[str, Any], rng: random.Random) -> int | float:
    step = _real(schema.get("multipleOf"), 1)
    minimum = _real(
        schema.get("minimum"),
        _real(schema.get("exclusiveMinimum"), 0) + ("exclusiveMinimum" in schema) * step,
    )
    maximum = _real(schema.get("maximum"), _real(schema.get("exclusiveMaximum"), minimum + 10 * step))
    maximum -= ("exclusiveMaximum" in schema and "maximum" not in schema) * step
    if kind == "number" and maximum - minimum < step:
        return minimum
    first = -(-minimum // step)
    last = max(first, maximum // step)
    picked = rng.randint(int(first), int(min(last, first + 10)))
    return int(picked * step) if kind == "integer" else picked * step


def _whole(value: Any, default: int) -> int:
    return (
        value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 10_000 else default
    )


def _real(value: Any, default: float) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15
    return value if is_number else default


def _remove_duplicates(made: list[Any]) -> list[Any]:
    kept: list[Any] = []
    for one in made:
        if one not in kept:
            kept.append(one)
    return kept
