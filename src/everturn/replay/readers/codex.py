"""Codex rollouts: items of the Responses API, wrapped with a time and a type, or plain as in 2025.

Messages appear twice: as items, which are read, and as events, of which only the usage is read. Reasoning is
encrypted or summarized. The model does not see either form again, so it is left out. Codex's log of its
terminal: `codex_terminal.py`.
"""

from collections.abc import Iterator
from typing import Any, Final

from everturn.history.blocks import Block
from everturn.history.records import Usage
from everturn.replay.readers.openai_messages import content_blocks
from everturn.replay.readers.record_builder import (
    RecordBuilder,
    ReplyDetails,
    call_block,
    text_of_parts,
    texts,
    usage_from_counts,
)
from everturn.replay.readers.values import Json, Reader, RecordedConversation, RecordedPreamble, SourceFile
from everturn.wire.json_values import is_list, is_object

_CALLS: Final = ("function_call", "custom_tool_call", "local_shell_call")
_OUTPUTS: Final = ("function_call_output", "custom_tool_call_output")
_WRAPPERS: Final = ("response_item", "session_meta", "turn_context", "event_msg", "compacted")
# A larger number is a mistake of the file.
_MAX_WINDOW: Final = 100_000_000
_ITEMS: Final = (*_CALLS, *_OUTPUTS, "reasoning")


def _recognises(source: SourceFile) -> bool:
    lines = source.lines
    wrapped = any(each.get("type") in _WRAPPERS and is_object(each.get("payload")) for each in lines)
    bare = any(
        "record_type" in each
        or (each.get("type") in _ITEMS and ("call_id" in each or "summary" in each))
        or (each.get("type") == "message" and _is_item_content(each.get("content")))
        for each in lines
    )
    return wrapped or bare


def _is_item_content(content: Any) -> bool:
    return is_list(content) and any(
        is_object(part) and part.get("type") in ("input_text", "output_text") for part in content
    )


def _conversations(source: SourceFile) -> Iterator[RecordedConversation]:
    rollout = _Rollout()
    for line in source.lines:
        payload = line.get("payload")
        if line.get("type") in _WRAPPERS and is_object(payload):
            rollout.line(line["type"], payload, line.get("timestamp"))
        else:
            rollout.line("response_item", line, line.get("timestamp"))
    yield rollout.conversation()


class _Rollout:
    """Collects a rollout. A response ends when something answers it or when its usage is reported."""

    def __init__(self) -> None:
        self._builder = RecordBuilder()
        self._model = ""
        self._instructions = ""
        self._said: list[Block] = []
        self._said_at: Any = None
        self._answers: list[tuple[str, str, Any]] = []
        self._usage: Usage | None = None
        self._window = 0

    def conversation(self) -> RecordedConversation:
        self._close()
        return RecordedConversation(
            (self._builder.thread,),
            "",
            self._builder.notes,
            RecordedPreamble(self._instructions),
            window=self._window,
        )

    def line(self, kind: str, payload: Json, at: Any) -> None:
        match kind:
            case "session_meta" | "turn_context":
                self._model = texts(payload.get("model")) or self._model
                base = payload.get("base_instructions")
                told = texts(payload.get("instructions")) or text_of_parts(base)
                self._instructions = self._instructions or told
            case "event_msg":
                self._event(payload)
            case "compacted":
                self._close()
                self._builder.compaction(texts(payload.get("message")), at)
            case _:
                self._item(payload, at)

    def _event(self, payload: Json) -> None:
        info = payload.get("info")
        # Reported with the usage, and before it when a task starts. The newest counts: models change.
        self._window = _window(info) or _window(payload) or self._window
        last = info.get("last_token_usage") if is_object(info) else None
        if payload.get("type") == "token_count" and is_object(last) and self._said:
            self._usage = usage_from_counts(
                prompt=last.get("input_tokens"),
                read=last.get("cached_input_tokens"),
                output=last.get("output_tokens"),
            )

    def _item(self, item: Json, at: Any) -> None:
        kind = item.get("type")
        if kind == "message" and item.get("role") in ("user", "developer"):
            self._close()
            self._builder.user(content_blocks(item.get("content")), at)
        elif kind == "message" and item.get("role") == "assistant":
            self._hear(content_blocks(item.get("content")), at)
        elif kind in _CALLS:
            given = item.get("arguments", item.get("input", item.get("action")))
            name = texts(item.get("name")) or "local_shell"
            self._hear([call_block(texts(item.get("call_id")), name, given)], at)
        elif kind in _OUTPUTS:
            self._answers.append((texts(item.get("call_id")), _output(item.get("output")), at))

    def _hear(self, blocks: Any, at: Any) -> None:
        if self._answers or self._usage is not None:
            self._close()
        self._said_at = self._said_at or at
        self._said.extend(blocks)

    def _close(self) -> None:
        """Adds the response, and then the results that answered it."""
        if self._said:
            said = ReplyDetails(model=self._model, usage=self._usage)
            self._builder.assistant(self._said, said, self._said_at)
        for call, output, at in self._answers:
            self._builder.result(call, output, at)
        self._said, self._said_at, self._answers, self._usage = [], None, [], None


def _window(said: Any) -> int:
    found = said.get("model_context_window") if is_object(said) else None
    return found if type(found) is int and 0 < found <= _MAX_WINDOW else 0


def _output(output: Any) -> str:
    if is_object(output):
        return texts(output.get("content")) or texts(output.get("output"))
    return text_of_parts(output)


CODEX: Final = Reader("codex", _recognises, _conversations)
