"""OpenHands trajectories: events as they happened, in one JSON object or in every line of output.jsonl.

An action of the agent points to the response it came from, and an observation to the action that caused it.
Actions of one response are one reply here.
"""

from collections.abc import Iterator
from typing import Any, Final

from everturn.history.blocks import Block, text_block
from everturn.history.records import Usage
from everturn.replay.readers.openai_messages import openai_usage
from everturn.replay.readers.record_builder import (
    RecordBuilder,
    ReplyDetails,
    call_block,
    text_of_parts,
    texts,
    usage_from_counts,
)
from everturn.replay.readers.values import Reader, RecordedConversation, RecordedPreamble, SourceFile


def _runs(source: SourceFile) -> list[dict[str, Any]]:
    found = source.lines or (source.whole if isinstance(source.whole, list) else [source.whole])
    return [each for each in found if isinstance(each, dict) and _is_run(each)]


def _is_run(value: dict[str, Any]) -> bool:
    history = value.get("history")
    return (
        "instance_id" in value
        and isinstance(history, list)
        and any(isinstance(each, dict) and ("action" in each or "observation" in each) for each in history)
    )


def _recognises(source: SourceFile) -> bool:
    return bool(_runs(source))


def _conversations(source: SourceFile) -> Iterator[RecordedConversation]:
    found = _runs(source)
    for run in found:
        key = texts(run.get("instance_id")) if len(found) > 1 else ""
        yield _Run(run).conversation(key)


class _Run:
    """One run: its events, and what its metrics say of each response."""

    def __init__(self, run: dict[str, Any]) -> None:
        self._events = [event for event in run["history"] if isinstance(event, dict)]
        self._usages = _usages(run.get("metrics"))
        metadata = run.get("metadata")
        config = metadata.get("llm_config") if isinstance(metadata, dict) else None
        self._model = texts(config.get("model")) if isinstance(config, dict) else ""
        self._book = RecordBuilder()
        self._head = RecordedPreamble()
        # The call that an action made, by the action's id.
        self._calls: dict[Any, str] = {}
        self._notes: list[str] = []

    def conversation(self, key: str) -> RecordedConversation:
        pending: list[dict[str, Any]] = []
        for event in self._events:
            if pending and _response(event) != _response(pending[0]):
                self._reply(pending)
                pending = []
            if _is_reply(event):
                pending.append(event)
            elif "observation" in event:
                # Observations of parallel calls stand between the actions of their response.
                self._reply(pending)
                pending = []
                self._observe(event)
            else:
                self._told(event)
        self._reply(pending)
        return RecordedConversation((self._book.thread,), key, (*self._notes, *self._book.notes), self._head)

    def _told(self, event: dict[str, Any]) -> None:
        args = event.get("args")
        given = args if isinstance(args, dict) else {}
        if event.get("action") == "system":
            self._head = RecordedPreamble(texts(given.get("content")), given.get("tools"))
        elif event.get("action") == "message" and event.get("source") == "user":
            self._book.user(
                texts(given.get("content")) or texts(event.get("message")), event.get("timestamp")
            )
        elif event.get("action") == "condensation":
            self._notes.append("it was condensed while it ran; here it is whole")

    def _reply(self, actions: list[dict[str, Any]]) -> None:
        if not actions:
            return
        blocks: list[Block] = []
        response = _model_response(actions[0])
        message = _message(response)
        blocks.append(text_block(text_of_parts(message.get("content")) or _words(actions[0], message)))
        for action in actions:
            made = action.get("tool_call_metadata")
            if isinstance(made, dict):
                id = texts(made.get("tool_call_id"))
                self._calls[action.get("id")] = id
                given = _arguments(message, id)
                name = texts(made.get("function_name"))
                blocks.append(call_block(id, name, action.get("args") if given is None else given))
        id = texts(response.get("id"))
        usage = self._usages.get(id) or openai_usage(response.get("usage"))
        said = ReplyDetails(model=texts(response.get("model")) or self._model, id=id, usage=usage)
        self._book.assistant(blocks, said, actions[0].get("timestamp"))

    def _observe(self, event: dict[str, Any]) -> None:
        if event.get("observation") in ("recall", "agent_state_changed", "null"):
            return
        made = event.get("tool_call_metadata")
        call = self._calls.get(event.get("cause")) or (
            texts(made.get("tool_call_id")) if isinstance(made, dict) else ""
        )
        failed = event.get("observation") == "error"
        content = texts(event.get("content")) or texts(event.get("message"))
        self._book.result(call, content, event.get("timestamp"), failed=failed)


def _is_reply(event: dict[str, Any]) -> bool:
    """Whether the model itself did it: everything of the agent but the system prompt and bookkeeping."""
    return event.get("source") == "agent" and event.get("action") not in (
        None, "system", "recall", "change_agent_state", "null", "condensation",
    )  # fmt: skip


def _response(event: dict[str, Any]) -> Any:
    """What tells replies apart: the response's id; an action without one is a reply by itself."""
    return texts(_model_response(event).get("id")) or event.get("id")


def _model_response(event: dict[str, Any]) -> dict[str, Any]:
    made = event.get("tool_call_metadata")
    response = made.get("model_response") if isinstance(made, dict) else None
    return response if isinstance(response, dict) else {}


def _message(response: dict[str, Any]) -> dict[str, Any]:
    choices = response.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    return message if isinstance(message, dict) else {}


def _words(action: dict[str, Any], message: dict[str, Any]) -> str:
    """What was said where no response is kept: the thought, or a plain message."""
    args = action.get("args")
    if message or not isinstance(args, dict):
        return ""
    if "tool_call_metadata" in action:
        return texts(args.get("thought"))
    return texts(args.get("content")) or texts(args.get("thought")) or texts(action.get("message"))


def _arguments(message: dict[str, Any], id: str) -> Any:
    for call in message.get("tool_calls") or ():
        if isinstance(call, dict) and call.get("id") == id and isinstance(call.get("function"), dict):
            return call["function"].get("arguments")
    return None


def _usages(metrics: Any) -> dict[str, Usage | None]:
    listed = metrics.get("token_usages") if isinstance(metrics, dict) else None
    return {
        texts(each.get("response_id")): usage_from_counts(
            prompt=each.get("prompt_tokens"),
            read=each.get("cache_read_tokens"),
            written=each.get("cache_write_tokens"),
            output=each.get("completion_tokens"),
        )
        for each in listed or ()
        if isinstance(each, dict)
    }


OPENHANDS: Final = Reader("openhands", _recognises, _conversations)
