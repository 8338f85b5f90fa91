"""The probes of `everturn twin verify`, one row each: id, question, requests, what is compared.

Prompts that are cached contain `{salt}`, so that no earlier run has cached them. Most probes use the cheapest
model and a few tokens. Errors and token counts are free.
"""

from typing import Any, Final

from everturn.twin.verify.values import ComparedField as Field
from everturn.twin.verify.values import LearnedOption, Probe, ProbeRequest

_MODEL: Final = "claude-haiku-5-5"
_OLD_MODEL: Final = "claude-haiku-4-5"
_COMPACTING_MODEL: Final = "claude-sonnet-5-5"
_FIVE: Final = {"type": "ephemeral"}
_HOUR: Final = {"type": "ephemeral", "ttl": "1h"}
_EDITING: Final = "context-management-2025-06-27"
_COMPACT_NOW: Final = "compact-2026-09-04"
_COMPACT_AT: Final = "compact-2026-01-12"
_SENTENCE: Final = "The harbour master counts the boats that come in before the evening tide. "
# About 2,000 tokens: above the minimum of the model that the cache probes use.
_LONG: Final = _SENTENCE * 70
# 1 x 1 pixel.
_PNG: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
_READ: Final = "usage.cache_read_input_tokens"
_WRITE: Final = "usage.cache_creation_input_tokens"
_REFUSED: Final = (Field(0, "status"), Field(0, "error.type"), Field(0, "error.message"))


def _text(words: str, marker: dict[str, str] | None = None) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": words}
    return block | ({"cache_control": marker} if marker else {})


def _user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": [_text(each) if isinstance(each, str) else each for each in blocks]}


def _tool(name: str = "look", **more: Any) -> dict[str, Any]:
    return {"name": name, "description": "Look at a place.", "input_schema": {"type": "object"}} | more


def _call(id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "look", "input": {}}


def _result(id: str, content: Any = "nothing") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": content}


def _said(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def _ask(messages: Any = None, *, betas: str = "", wait: float = 0.0, **body: Any) -> ProbeRequest:
    """A message of one token, without thinking, unless `body` says otherwise."""
    whole: dict[str, Any] = {"model": _MODEL, "max_tokens": 1, "thinking": {"type": "disabled"}}
    whole["messages"] = [_user("Say OK.")] if messages is None else messages
    whole |= body
    return ProbeRequest(
        {name: value for name, value in whole.items() if value is not None}, betas=betas, wait=wait
    )


def _count(messages: Any = None, *, betas: str = "", **body: Any) -> ProbeRequest:
    whole = {"model": _MODEL, "messages": [_user(_LONG)] if messages is None else messages} | body
    return ProbeRequest(whole, endpoint="count_tokens", betas=betas)


def _system(name: str, marker: dict[str, str] | None = None) -> list[dict[str, Any]]:
    return [_text(f"{{salt}} {name}. {_LONG}", marker or _FIVE)]


def _held() -> dict[str, Any]:
    """The prompt whose system prompt has an entry of five minutes, with one of an hour on top."""
    system = [_text(f"{{salt}} hold. {_LONG}")]
    return {"system": system, "messages": [_user(_text(_SENTENCE * 3, _HOUR), "Say OK.")]}


def _image(data: str, media_type: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def _schema(**more: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]} | more
    return {"format": {"type": "json_schema", "schema": schema}}


def _refuses(id: str, asks: str, request: ProbeRequest, learns: LearnedOption | None = None) -> Probe:
    """A request that is refused: the status, the type of the error and its wording."""
    return Probe(id, asks, (request,), _REFUSED, learns)


def _accepts(option: str) -> LearnedOption:
    return LearnedOption(option, 0, {200: "accept", 400: "refuse"})


def _counts(id: str, asks: str, request: ProbeRequest, *, learns_ratio: str = "") -> Probe:
    return Probe(id, asks, (request,), (Field(0, "input_tokens", "near"),), learns_ratio=learns_ratio)


def _caches(
    id: str, asks: str, *requests: ProbeRequest, learns: LearnedOption | None = None, slow: bool = False
) -> Probe:
    """Requests of which the first writes: whether each of them wrote and read something."""
    fields = [Field(at, path, "zero") for at in range(len(requests)) for path in (_WRITE, _READ)]
    return Probe(id, asks, requests, tuple(fields), learns, is_slow=slow)


# ── an entry for each section ────────────────────────────────────────────────────────────────────


def _sections(name: str, *, betas: str = "", **body: Any) -> ProbeRequest:
    """Tools, system and messages of about the same size, each with a breakpoint."""
    tool = _tool(description=f"{{salt}} {name}. {_LONG}", cache_control=_FIVE)
    whole: dict[str, Any] = {"tools": [tool], "system": [_text(_LONG, _FIVE)]} | body
    return _ask([_user(_text(_LONG, _FIVE), "Say OK.")], betas=betas, **whole)


def _invalidates(
    id: str, asks: str, changed: ProbeRequest, name: str, learns: LearnedOption | None = None
) -> Probe:
    """How much of a prompt is read again after a change: 3 thirds are everything, 0 nothing."""
    return Probe(id, asks, (_sections(name), changed), (Field(1, _READ, "thirds"),), learns)


def _by_section(option: str) -> LearnedOption:
    return LearnedOption(option, 0, {2: "messages", 1: "system", 0: "tools"})


# ── lookback ─────────────────────────────────────────────────────────────────────────────────────


def _blocks_after(name: str, count: int) -> list[dict[str, Any]]:
    """A cached block, and so many blocks after it, the last with a breakpoint."""
    later = [_text(f"Item {number}.") for number in range(count - 1)]
    return [_user(_text(f"{{salt}} {name}. {_LONG}"), *later, _text("Say OK.", _FIVE))]


def _lookback(id: str, asks: str, count: int, learns: LearnedOption | None = None) -> Probe:
    name = f"lookback {count}"
    first = [_user(_text(f"{{salt}} {name}. {_LONG}", _FIVE))]
    return _caches(id, asks, _ask(first), _ask(_blocks_after(name, count)), learns=learns)


def _run_of_results(marker: bool) -> list[dict[str, Any]]:
    calls = [f"toolu_{number}" for number in range(25)]
    begin = _user(_text(f"{{salt}} run. {_LONG}", None if marker else _FIVE))
    if not marker:
        return [begin]
    results = [_result(id) for id in calls]
    results[-1]["cache_control"] = _FIVE
    return [begin, _said(*map(_call, calls)), {"role": "user", "content": results}]


def _uses(count: int) -> list[dict[str, Any]]:
    """A conversation with so many tool calls and their results."""
    messages = [_user("Look around.")]
    for number in range(count):
        id = f"toolu_{number}"
        messages += [_said(_call(id)), {"role": "user", "content": [_result(id, _LONG[:2000])]}]
    return messages


_CLEAR: Final = {
    "edits": [
        {
            "type": "clear_tool_uses_20250919",
            "trigger": {"type": "tool_uses", "value": 2},
            "keep": {"type": "tool_uses", "value": 1},
        }
    ]
}
_HARD: Final = "Is 7919 a prime number? Think about it before you answer yes or no."

PROBES: Final[tuple[Probe, ...]] = (
    # ── token counts (free) ──
    _counts("count.text", "tokens of a text, new tokenizer", _count(), learns_ratio=_MODEL),
    _counts(
        "count.text-old", "tokens of a text, old tokenizer", _count(model=_OLD_MODEL), learns_ratio=_OLD_MODEL
    ),
    _counts("count.system", "tokens of a system prompt", _count([_user("hi")], system=_LONG)),
    _counts("count.tools", "tokens of a tool and the hidden prompt", _count([_user("hi")], tools=[_tool()])),
    _counts("count.results", "tokens of tool calls and results", _count(_uses(3), tools=[_tool()])),
    # ── the cache ──
    _caches("cache.read", "a second request reads what the first wrote", *[_ask(system=_system("read"))] * 2),
    _caches("cache.no-marker", "without a breakpoint nothing is cached", *[_ask(system=_LONG)] * 2),
    _caches(
        "cache.automatic",
        "cache_control of the request",
        *[_ask([_user(f"{{salt}} auto. {_LONG}")], cache_control=_FIVE)] * 2,
    ),
    _caches(
        "cache.too-short",
        "a prefix below the minimum",
        *[_ask(system=[_text("{salt} short. " + _SENTENCE * 8, _FIVE)])] * 2,
    ),
    _caches(
        "cache.minimum",
        "a prefix of 600 to 1,000 tokens on Sonnet 5.5",
        _ask(
            model=_COMPACTING_MODEL,
            thinking=None,
            max_tokens=1,
            system=[_text("{salt} minimum. " + _SENTENCE * 28, _FIVE)],
        ),
        learns=LearnedOption(
            "min_cache", 0, {"something": {_COMPACTING_MODEL: 512}, "nothing": {_COMPACTING_MODEL: 1024}}
        ),
    ),
    _caches(
        "cache.changed-system",
        "another system prompt",
        _ask(system=_system("one")),
        _ask(system=_system("two")),
    ),
    _caches(
        "cache.workspace-ttl",
        "1h before 5m in one request",
        _ask(system=_system("ttl", _HOUR), messages=[_user(_text(_LONG, _FIVE), "Say OK.")]),
    ),
    _lookback(
        "cache.lookback-19",
        "an entry 19 blocks before the breakpoint",
        19,
        LearnedOption("lookback", 3, {"nothing": 19, "something": 20}),
    ),
    _lookback(
        "cache.lookback-20",
        "an entry 20 blocks before the breakpoint",
        20,
        LearnedOption("lookback", 3, {"nothing": 20, "something": 21}),
    ),
    _caches(
        "cache.runs",
        "runs of 25 calls and 25 results in the lookback",
        _ask(_run_of_results(False), tools=[_tool()]),
        _ask(_run_of_results(True), tools=[_tool()]),
        learns=LearnedOption("runs_are_one_position", 3, {"something": True, "nothing": False}),
    ),
    _invalidates(
        "cache.effort",
        "a change of effort",
        _sections("effort", output_config={"effort": "low"}),
        "effort",
        _by_section("effort_invalidates"),
    ),
    _invalidates(
        "cache.thinking",
        "thinking on after off",
        _sections("thinking", thinking={"type": "adaptive"}),
        "thinking",
        _by_section("thinking_invalidates"),
    ),
    _invalidates(
        "cache.format",
        "an output format after none",
        _sections("format", output_config=_schema(additionalProperties=False)),
        "format",
        LearnedOption("output_format_invalidates", 0, {3: False, 2: True}),
    ),
    _invalidates(
        "cache.betas",
        "another beta header",
        _sections("betas", betas=_EDITING),
        "betas",
        LearnedOption("betas_invalidate", 0, {3: False, 0: True}),
    ),
    _invalidates(
        "cache.tool-choice",
        "tool_choice none after auto",
        _sections("choice", tool_choice={"type": "none"}),
        "choice",
    ),
    Probe(
        "cache.prewarm",
        "max_tokens 0",
        (_ask(max_tokens=0, system=_system("prewarm")), _ask(system=_system("prewarm"))),
        (Field(0, "stop_reason"), Field(0, "content"), Field(0, _WRITE, "zero"), Field(1, _READ, "zero")),
    ),
    _caches(
        "cache.expiry",
        "an entry is gone after 5 minutes and 20 seconds",
        _ask(system=_system("expiry")),
        _ask(system=_system("expiry"), wait=320),
        slow=True,
    ),
    _caches(
        "cache.refresh",
        "a read refreshes an entry",
        _ask(system=_system("refresh")),
        _ask(system=_system("refresh"), wait=200),
        _ask(system=_system("refresh"), wait=200),
        slow=True,
    ),
    _caches(
        "cache.longer-marker",
        "a 1h breakpoint over a 5m entry lengthens it",
        _ask(system=_system("longer")),
        _ask(system=_system("longer", _HOUR)),
        _ask(system=_system("longer", _HOUR), wait=320),
        slow=True,
        learns=LearnedOption("longer_marker_lengthens", 5, {"something": True, "nothing": False}),
    ),
    _caches(
        "cache.hour-over-five",
        "a 1h entry on top of a 5m entry outlives it: what a hold relies on",
        _ask(system=_system("hold")),
        _ask(**_held()),
        _ask(**_held(), wait=320),
        slow=True,
        learns=LearnedOption("hour_survives_prefix", 5, {"something": True, "nothing": False}),
    ),
    # ── errors (free) ──
    _refuses("error.unknown-field", "a field that does not exist", _ask(colour="red")),
    _refuses("error.no-messages", "no messages", _ask([])),
    _refuses("error.no-max-tokens", "no max_tokens", _ask(max_tokens=None)),
    _refuses("error.unknown-model", "a model that does not exist", _ask(model="claude-nope")),
    _refuses("error.empty-text", "an empty text block", _ask([_user("")])),
    _refuses("error.five-markers", "five breakpoints", _ask([_user(*[_text("x", _FIVE)] * 5)])),
    _refuses("error.ttl-order", "1h after 5m", _ask([_user(_text("x", _FIVE), _text("y", _HOUR))])),
    _refuses(
        "error.missing-result",
        "a tool call without a result",
        _ask([_user("a"), _said(_call("toolu_1")), _user("b")], tools=[_tool()]),
    ),
    _refuses(
        "error.orphan-result",
        "a result without a tool call",
        _ask([_user("a"), _said(_text("b")), _user(_result("toolu_1"))], tools=[_tool()]),
    ),
    _refuses("error.prefill", "an assistant message at the end", _ask([_user("a"), _said(_text("b"))])),
    _refuses("error.max-tokens", "max_tokens above the model's limit", _ask(max_tokens=1_000_000)),
    _refuses(
        "error.thinking-enabled",
        "a thinking budget on a new model",
        _ask(thinking={"type": "enabled", "budget_tokens": 1024}, max_tokens=2000),
    ),
    _refuses(
        "error.edit-order",
        "clear_thinking after another edit",
        _ask(
            context_management={"edits": [*_CLEAR["edits"], {"type": "clear_thinking_20251015"}]},
            betas=_EDITING,
            thinking={"type": "adaptive"},
            max_tokens=2000,
        ),
    ),
    _refuses(
        "error.compact-trigger",
        "a compaction trigger below 50,000",
        _ask(
            context_management={
                "edits": [{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 9}}]
            },
            betas=_COMPACT_AT,
            model=_COMPACTING_MODEL,
            thinking=None,
        ),
    ),
    _refuses(
        "error.surrogate",
        "half of a surrogate pair",
        ProbeRequest({"model": _MODEL}, raw=b'{"model": "\\ud83d"}'),
    ),
    _refuses(
        "error.tool-reference",
        "a reference to a tool that is not offered",
        _ask(
            [
                _user("a"),
                _said(_call("toolu_1")),
                _user(_result("toolu_1", [{"type": "tool_reference", "tool_name": "gone"}])),
            ],
            tools=[_tool()],
        ),
    ),
    _refuses(
        "error.unknown-beta",
        "a beta that does not exist",
        _ask(betas="made-up-2026-01-01"),
        _accepts("unknown_betas"),
    ),
    _refuses(
        "error.open-schema",
        "an output format without additionalProperties",
        _ask(output_config=_schema()),
        _accepts("open_schemas"),
    ),
    _refuses(
        "error.samplers",
        "temperature and top_p together",
        _ask(model=_OLD_MODEL, temperature=0.5, top_p=0.9),
        _accepts("temperature_with_top_p"),
    ),
    _refuses(
        "error.media-type",
        "a PNG image as image/jpeg",
        _ask([_user(_image(_PNG, "image/jpeg"), "hi")]),
        _accepts("mislabeled_images"),
    ),
    _refuses(
        "error.base64",
        "an image that is not base64",
        _ask([_user(_image("!"), "hi")]),
        _accepts("broken_base64"),
    ),
    _refuses(
        "error.version",
        "no anthropic-version header",
        ProbeRequest({"model": _MODEL, "max_tokens": 1, "messages": [_user("hi")]}, version=""),
        LearnedOption("version_header", 0, {200: "optional", 400: "required"}),
    ),
    # ── thinking, context editing, compaction, stop reasons ──
    Probe(
        "thinking.display",
        "whether the text of thinking is returned by default",
        (
            _ask(
                [_user(_HARD)],
                thinking={"type": "adaptive"},
                max_tokens=2000,
                output_config={"effort": "high"},
            ),
        ),
        (Field(0, "content.0.type"), Field(0, "content.0.thinking", "zero")),
        LearnedOption("thinking_display", 1, {"something": "summarized", "nothing": "omitted"}),
    ),
    _refuses(
        "thinking.signature",
        "thinking with a made-up signature",
        _ask(
            [
                _user("a"),
                _said({"type": "thinking", "thinking": "b", "signature": "QUJD"}, _text("c")),
                _user("d"),
            ],
            thinking={"type": "adaptive"},
            max_tokens=2000,
        ),
    ),
    Probe(
        "edit.count",
        "tokens after clearing tool results",
        (_count(_uses(4), tools=[_tool()], context_management=_CLEAR, betas=_EDITING),),
        (Field(0, "input_tokens", "near"), Field(0, "context_management.original_input_tokens", "near")),
    ),
    Probe(
        "edit.applied",
        "what clearing reports",
        (_ask(_uses(4), tools=[_tool()], context_management=_CLEAR, betas=_EDITING),),
        (
            Field(0, "context_management.applied_edits.*.type"),
            Field(0, "context_management.applied_edits.0.cleared_tool_uses"),
        ),
    ),
    Probe(
        "compact.now",
        "a compaction on demand",
        (
            _ask(
                [
                    _user("My name is Ada and I like boats."),
                    _said(_text("Hello Ada.")),
                    _user("Remember it."),
                ],
                model=_COMPACTING_MODEL,
                thinking=None,
                max_tokens=2000,
                compaction={"type": "summarize"},
                betas=_COMPACT_NOW,
            ),
        ),
        (
            Field(0, "stop_reason"),
            Field(0, "content.*.type"),
            Field(0, "usage.iterations.*.type"),
            Field(0, "usage.output_tokens"),
        ),
    ),
    Probe(
        "stop.max-tokens",
        "a reply that is cut off",
        (_ask([_user("Count from 1 to 100.")], max_tokens=5),),
        (Field(0, "stop_reason"), Field(0, "usage.output_tokens")),
    ),
    Probe(
        "stop.sequence",
        "a reply that ends at a stop sequence",
        (
            _ask(
                [_user("Write the numbers from 1 to 9, separated by spaces, and nothing else.")],
                max_tokens=60,
                stop_sequences=["5"],
            ),
        ),
        (Field(0, "stop_reason"), Field(0, "stop_sequence")),
        script=("1 2 3 4 5 6 7 8 9",),
    ),
    Probe(
        "stream.events",
        "the order of stream events",
        (_ask(max_tokens=5, stream=True),),
        (Field(0, "status"), Field(0, "events")),
        script=("OK, boats.",),
    ),
)
