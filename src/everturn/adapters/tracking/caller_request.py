"""A caller's request, read from its body.

everturn changes only the messages and the cache breakpoints. System prompt, tools and all other fields are
sent as they came; the parameters of the cache key are read to notice changes. A request that lets the API
change the conversation, or that could not be rebuilt exactly, gives an `UnsupportedRequest` with the reason.

Server-side threads are resolved here: a request of a thread has only the new messages and names the reply
that they follow (api-facts 2.6). The earlier messages come from the tracked conversation.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, Literal, NamedTuple

import msgspec

from everturn.adapters.tracking.chain import (
    START,
    BlockPosition,
    digest,
    digest_block,
)
from everturn.adapters.tracking.list_memo import ListMemo, OwnedFields, OwnedList, UnsupportedMessage
from everturn.adapters.tracking.system_messages import OUTPUT_CONFIG_BETAS, to_system_blocks
from everturn.history.blocks import Block, block_from_fields, text_block
from everturn.measure.capabilities import Scope
from everturn.measure.outline import Preamble
from everturn.view.key_parameters import KeyParameters, TtlChoice
from everturn.wire.anthropic import tool_block, without_cache_control
from everturn.wire.json_values import is_list, is_mapping, is_sequence

# Who places `cache_control`: everturn, or the caller (a framework that knows its own models).
BreakpointOwner = Literal["everturn", "caller"]
CallerRole = Literal["user", "assistant", "system"]

# Edits of `context_management` that change nothing that everturn decides: thinking is not compacted, and the
# API applies them to what it is sent.
HARMLESS_EDITS: Final = frozenset({"clear_thinking_20251015"})
# Fields that are read separately; every other field is sent as it came.
_READ: Final = frozenset(
    {"model", "messages", "system", "tools", "thinking", "tool_choice", "speed", "output_config", "stream",
     "thread"}
)  # fmt: skip
# Why a request is sent as it came whose field would be left out, or sent as something else.
MISTYPED: Final = "a field has a type that the API does not document"
_encode = msgspec.json.Encoder().encode
_lists: Final = ListMemo()


class UnsupportedRequest(msgspec.Struct, frozen=True):
    """Why a request is sent unchanged."""

    why: str


class KnownPrefix(NamedTuple):
    """The known part of a conversation, up to and including a reply."""

    chain: Sequence[bytes] = ()
    preamble: Preamble = Preamble()
    preamble_digest: bytes = b""
    # Whether its last request used messages with role "system", and an `output_config` in one. A conversation
    # that is only stored has what was recorded.
    has_system_messages: bool = True
    has_message_config: bool = True


class NewMessage(NamedTuple):
    """What a request adds to a conversation: a message, or the blocks at the end of one."""

    role: CallerRole
    blocks: tuple[Block, ...]
    # The number of links of the request up to its end.
    links: int


class CallerRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request of a caller. `chain` has a link for each block with content; `fingerprint` identifies all
    of it. In a request of a thread the first `known` links have no message: they come from what is known."""

    model: str
    messages: Sequence[Mapping[str, Any]]
    preamble: Preamble
    parameters: KeyParameters
    fields: Mapping[str, Any]
    breakpoints: BreakpointOwner
    chain: Sequence[bytes]
    positions: Sequence[BlockPosition]
    # For each message, the number of positions up to its end.
    ends: Sequence[int]
    known: int = 0
    preamble_digest: bytes
    fingerprint: bytes
    # The last breakpoint that the caller set in its messages; always None if everturn places them.
    message_mark: Mapping[str, Any] | None = None
    # Who sent it, where the caller says so: it continues only conversations of the same scope.
    scope: str = ""
    # Sent as it came: it is recorded and billed, and nothing is decided.
    is_observed: bool = False
    # Whether it has messages with role "system", and whether one of them has an `output_config`. In a thread,
    # where only new messages are sent: whether the thread has.
    has_system_messages: bool = False
    has_message_config: bool = False
    # Whether later requests may name its reply instead of repeating what was said.
    is_in_thread: bool = False

    def role(self, link: int) -> str:
        """The role of the message that a link stands for; of links without a message, the user's."""
        return self.messages[self.positions[link - self.known].message]["role"]

    def block(self, link: int) -> Any:
        """The block that a link stands for, as the caller sent it; of plain content, the string."""
        message, block = self.positions[link - self.known]
        content: Any = self.messages[message].get("content")
        return content if isinstance(content, str) else content[block]

    def blocks(self, link: int) -> list[tuple[str, Any]]:
        """The role and the block that a link stands for; for the thinking with which a reply ends, all blocks
        since the link before."""
        role, block = self.role(link), self.block(link)
        if role != "assistant" or digest_block(role, block) is not None:
            return [(role, block)]
        at = link - self.known
        last = self.positions[at]
        before = self.positions[at - 1] if at else BlockPosition(-1, -1)
        found: list[tuple[str, Any]] = []
        for place in range(max(before.message, 0), last.message + 1):
            if self.messages[place]["role"] == role:
                skip = before.block + 1 if place == before.message else 0
                content = self.messages[place]["content"]
                found += [(role, each) for each in content[skip:]]
        return found

    def without_messages(self) -> "CallerRequest":
        """What is remembered of a request: the list is large, and the chain of the conversation has it."""
        return msgspec.structs.replace(self, messages=(), chain=self.chain[:1], positions=(), ends=())

    def new_messages(self, links: int) -> Iterator[NewMessage]:
        """What comes after the first `links` links. Thinking belongs to the block that it precedes."""
        at = links - self.known
        first, skip = 0, 0
        if at > 0:
            first, block = self.positions[at - 1]
            skip = block + 1
        for at in range(first, len(self.messages)):
            message = self.messages[at]
            blocks = read_message_blocks(message, skip)
            skip = 0
            if blocks:
                yield NewMessage(message["role"], blocks, self.known + self.ends[at])

    @property
    def last_reply(self) -> int:
        """The number of links up to the last assistant message; 0 if there is none."""
        return self._find_reply(len(self.chain))

    @property
    def last_answered_reply(self) -> int:
        """The same without an assistant message at the end: the caller has begun a reply, and the model is to
        go on with it."""
        end = len(self.chain)
        while end > self.known and self.role(end - 1) == "assistant":
            end -= 1
        return self._find_reply(end)

    def _find_reply(self, end: int) -> int:
        for link in range(end, self.known, -1):
            if self.role(link - 1) == "assistant":
                return link
        return self.known


def read_request(
    body: Mapping[str, Any],
    *,
    betas: Sequence[str] = (),
    breakpoints: BreakpointOwner = "everturn",
    find_prefix: Callable[[str], KnownPrefix | None] = lambda _: None,
    scope: str = "",
    is_observed: bool = False,
) -> CallerRequest | UnsupportedRequest:
    """`betas` are those in its header; `find_prefix` finds a conversation by the id of a reply in it."""
    before = KnownPrefix()
    if (reply := _read_previous_reply(body)) is not None:
        found = find_prefix(reply)
        if found is None:
            return UnsupportedRequest("it continues a thread that everturn has not seen")
        before = found
    if why := _find_unsupported(body, before):
        return UnsupportedRequest(why)
    if before.chain and not (before.preamble_digest or is_observed or _system(body) or body.get("tools")):
        return UnsupportedRequest("it continues a thread whose system prompt and tools are not known here")
    return _read(body, tuple(betas), breakpoints, before, scope=scope, is_observed=is_observed)


def _read_previous_reply(body: Mapping[str, Any]) -> str | None:
    thread = body.get("thread")
    if thread is None or not is_mapping(thread) or thread.get("type") != "continue":
        return None
    return str(thread.get("previous_message_id"))


def _read(
    body: Mapping[str, Any],
    betas: tuple[str, ...],
    breakpoints: BreakpointOwner,
    before: KnownPrefix,
    *,
    scope: str,
    is_observed: bool,
) -> CallerRequest | UnsupportedRequest:
    new: list[dict[str, Any]] = body["messages"]
    read = _lists.read(new, before.chain[-1] if before.chain else START)
    if isinstance(read, UnsupportedMessage):
        return UnsupportedRequest(f"messages.{read.at} has an unsupported role, field or content")
    positions = read.positions
    if new and (not positions or positions[-1].message < _find_last_said(new)):
        return UnsupportedRequest("its last message has no content")
    is_continued = bool(before.chain)
    chain = [*before.chain, *read.links] if is_continued else read.links
    (preamble, preamble_digest, asks_hour), fields = _read_other_fields(body, breakpoints, before)
    found = [each for _, each in read.breakpoints] if read.breakpoints else []
    configs: list[Any] = []
    if read.system_messages:
        configs = [(at, config) for at in read.system_messages if (config := new[at].get("output_config"))]
    parameters = _parameters(body, betas, asks_hour=asks_hour or (bool(found) and _asks_hour(found)))
    return CallerRequest(
        model=body["model"],
        messages=new,
        preamble=preamble,
        parameters=parameters,
        fields=fields,
        breakpoints=breakpoints,
        chain=chain,
        positions=positions,
        ends=read.ends,
        known=len(before.chain),
        preamble_digest=preamble_digest,
        fingerprint=digest(
            [chain[-1], preamble_digest, body["model"], parameters, fields, breakpoints, configs]
        ),
        message_mark=found[-1] if breakpoints == "caller" and found else None,
        scope=scope,
        is_observed=is_observed,
        has_system_messages=bool(read.system_messages) or (is_continued and before.has_system_messages),
        has_message_config=bool(configs)
        or (is_continued and before.has_message_config and not OUTPUT_CONFIG_BETAS.isdisjoint(betas)),
        is_in_thread=body.get("thread") is not None,
    )


class _OtherFields(NamedTuple):
    """What a request has besides its messages; the fields are those that are sent as they came."""

    preamble: "_ReadPreamble"
    fields: dict[str, Any]


def _read_other_fields(
    body: Mapping[str, Any], breakpoints: BreakpointOwner, before: KnownPrefix
) -> _OtherFields:
    """Nearly always the same as in the last request of the caller."""
    known: dict[str, _OtherFields] = {}
    if isinstance(body, OwnedFields) and not before.chain:
        known = body.read
    if breakpoints not in known:
        found = _find_preamble(body, breakpoints, before)
        if _asks_hour((body.get("cache_control"),)):
            found = found._replace(asks_hour=True)
        fields = {name: value for name, value in body.items() if name not in _READ and value is not None}
        if breakpoints == "everturn":
            fields.pop("cache_control", None)
        known[breakpoints] = _OtherFields(found, fields)
    return known[breakpoints]


def _find_last_said(messages: Sequence[Mapping[str, Any]]) -> int:
    """The last message that must have content: a system message may only set the effort."""
    last = len(messages) - 1
    while last > 0 and messages[last].get("output_config") and not messages[last].get("content"):
        last -= 1
    return last


def read_message_blocks(message: Mapping[str, Any], skip: int = 0) -> tuple[Block, ...]:
    """The blocks of a message from a position on, without breakpoints: those are placed anew for every
    request. A system message becomes blocks of its own kind."""
    content = message.get("content")
    if isinstance(content, str):
        blocks = () if skip else (text_block(content),)
    else:
        kept = islice(content or (), skip, None)
        blocks = tuple(block_from_fields(without_cache_control(block)) for block in kept)
    if message.get("role") != "system" or (skip and not blocks):
        return blocks
    return to_system_blocks(blocks, message.get("output_config"))


# ── what is not supported ────────────────────────────────────────────────────────────────────────


def _find_unsupported(body: Mapping[str, Any], before: KnownPrefix) -> str:
    if why := _find_own_management(body):
        return why
    messages = body.get("messages")
    if not isinstance(body.get("model"), str) or not body["model"] or not is_list(messages):
        return "it has no model or no messages"
    if not messages and not before.chain:
        return "it has no model or no messages"
    if body.get("max_tokens") == 0:
        return "it only warms the cache (max_tokens is 0)"
    if not isinstance(body.get("system") or "", (str, list)):
        return "its system prompt is neither a string nor a list of blocks"
    return MISTYPED if _is_mistyped(body) else ""


def _is_mistyped(body: Mapping[str, Any]) -> bool:
    """Whether a field that is read here, and not sent as it came, has a type that the API refuses. Looked at
    once for requests that differ only in their messages."""
    known: dict[str, Any] = body.read if isinstance(body, OwnedFields) else {}
    if _MISTYPED not in known:
        known[_MISTYPED] = _has_mistyped_field(body)
    return known[_MISTYPED]


def _has_mistyped_field(body: Mapping[str, Any]) -> bool:
    given = {name: body[name] for name in _TYPES if body.get(name) is not None}
    if not all(_TYPES[name](value) for name, value in given.items()):
        return True
    config = given.get("output_config", {})
    effort = config.get("effort")
    return effort is not None and not _is_text(effort)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _has_type(value: Any) -> bool:
    return is_mapping(value) and _is_text(value.get("type"))


def _is_system(value: Any) -> bool:
    return isinstance(value, str) or _are_marked_objects(value)


def _are_marked_objects(value: Any) -> bool:
    """Whether these are blocks or tools, whose breakpoints are placed anew."""
    if not is_sequence(value):
        return False
    controls = [each.get("cache_control") if is_mapping(each) and each else False for each in value]
    return all(each is None or _has_type(each) for each in controls)


# What each field of `_READ` must be, and the breakpoint of the whole request.
_TYPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "system": _is_system, "tools": _are_marked_objects, "thinking": _has_type, "tool_choice": _has_type,
    "speed": _is_text, "output_config": is_mapping, "thread": _has_type,
    "cache_control": _has_type,
}  # fmt: skip
# Where `OwnedFields` keep the answer.
_MISTYPED: Final = "mistyped"


def _find_own_management(body: Mapping[str, Any]) -> str:
    """Whether the API itself is asked to shorten the conversation."""
    if body.get("compaction") is not None:
        return "it uses compaction, the API's own context management"
    management = body.get("context_management")
    if management is None:
        return ""
    edits = management.get("edits") or () if is_mapping(management) else (None,)
    kinds = [each.get("type") if is_mapping(each) else None for each in edits]
    other = [str(kind) for kind in kinds if kind not in HARMLESS_EDITS]
    return f"it uses context_management ({', '.join(other)}), which also clears results" if other else ""


# ── system prompt, tools and parameters ──────────────────────────────────────────────────────────


def _system(body: Mapping[str, Any]) -> list[Any]:
    system: Any = body.get("system") or []
    return [{"type": "text", "text": system}] if isinstance(system, str) else system


class _ReadPreamble(NamedTuple):
    """System prompt and tools, and whether a breakpoint in them asks for an hour."""

    preamble: Preamble
    digest: bytes
    asks_hour: bool


class _PreambleMemo:
    """The last preambles that were read. Most requests have the system prompt and tools of an earlier one,
    and encoding them again is most of the work for a short conversation."""

    MAX_ENTRIES: Final = 64
    # All of them together. Above either limit all are forgotten.
    MAX_BYTES: Final = 16 << 20

    def __init__(self) -> None:
        self._known: dict[tuple[BreakpointOwner, bytes, bytes], _ReadPreamble] = {}
        # The same by the objects, if nobody changes them. They are kept, so that no other has their id.
        self._owned: dict[tuple[BreakpointOwner, int, int], tuple[Any, Any, _ReadPreamble]] = {}
        self._bytes = 0

    def read(
        self, system: Sequence[Any], tools: Sequence[Any], breakpoints: BreakpointOwner
    ) -> _ReadPreamble:
        if not isinstance(system, OwnedList) or not isinstance(tools, OwnedList):
            return self._read(system, tools, breakpoints)
        key = (breakpoints, id(system), id(tools))
        known = self._owned.get(key)
        if known is None:
            known = system, tools, self._read(system, tools, breakpoints)
            self._make_room(count_bytes(known[2].preamble))
            self._owned[key] = known
        return known[2]

    def _make_room(self, added: int) -> None:
        most = max(len(self._owned), len(self._known))
        if most >= self.MAX_ENTRIES or self._bytes + added > self.MAX_BYTES:
            self._owned, self._known, self._bytes = {}, {}, 0
        self._bytes += added

    def _read(
        self, system: Sequence[Any], tools: Sequence[Any], breakpoints: BreakpointOwner
    ) -> _ReadPreamble:
        # In the caller's order of keys: they are sent in that order.
        key = (breakpoints, _encode(system), _encode(tools))
        found = self._known.get(key)
        if found is None:
            self._make_room(len(key[1]) + len(key[2]))
            plain = digest(without_cache_control(system), without_cache_control(tools))
            found = self._known[key] = _ReadPreamble(
                _read_preamble(system, tools, breakpoints),
                plain,
                _asks_hour(each.get("cache_control") for each in (*system, *tools)),
            )
        return found


_preambles: Final = _PreambleMemo()


def _find_preamble(
    body: Mapping[str, Any], breakpoints: BreakpointOwner, before: KnownPrefix
) -> _ReadPreamble:
    """The preamble of a request. One that continues a thread without sending it has that of the thread."""
    system, tools = _system(body), body.get("tools") or ()
    if before.chain and not (system or tools):
        return _ReadPreamble(before.preamble, before.preamble_digest, asks_hour=False)
    return _preambles.read(system, tools, breakpoints)


def count_bytes(preamble: Preamble) -> int:
    return sum(len(block.raw) for block in (*preamble.tools, *preamble.system))


def _read_preamble(system: Sequence[Any], tools: Sequence[Any], breakpoints: BreakpointOwner) -> Preamble:
    """Tools and system prompt in the caller's order. The caller's breakpoints in the system prompt are kept:
    they separate parts that stay the same for longer."""
    if breakpoints == "caller":
        return Preamble(tuple(map(tool_block, tools)), tuple(map(block_from_fields, system)))
    scopes: dict[int, Scope] = {len(system) - 1: "org"} if system else {}
    for at, block in enumerate(system):
        if breakpoint_ := block.get("cache_control"):
            scopes[at] = "global" if breakpoint_.get("scope") == "global" else "org"
    return Preamble(
        tools=tuple(tool_block(without_cache_control(tool)) for tool in tools),
        system=tuple(block_from_fields(without_cache_control(block)) for block in system),
        marked=tuple(sorted(scopes)),
        scopes=tuple(scopes[at] for at in sorted(scopes)),
    )


def _parameters(body: Mapping[str, Any], betas: Sequence[str], *, asks_hour: bool) -> KeyParameters:
    """One hour for all breakpoints if the caller asks for it in any of its own."""
    config = dict(body.get("output_config") or {})
    effort = config.pop("effort", None) or ""
    return KeyParameters(
        _ONE_HOUR if asks_hour else _FIVE_MINUTES,
        betas=tuple(betas),
        thinking=body.get("thinking"),
        effort=effort,
        speed=body.get("speed") or "",
        tool_choice=body.get("tool_choice"),
        extra={"output_config": config} if config else {},
    )


_ONE_HOUR: Final = TtlChoice("1h", "the caller's own breakpoints ask for an hour")
_FIVE_MINUTES: Final = TtlChoice("5m", "the caller asks for no other lifetime")


def _asks_hour(controls: Iterable[Any]) -> bool:
    return any(is_mapping(each) and each.get("ttl") == "1h" for each in controls if each is not None)
