"""OpenHands trajectories: events in order, in one JSON object or in every line of output.jsonl.

An action of the agent refers to its response, and an observation to the action that caused it. The actions of
one response are one reply here.
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
    recorded_cost,
    text_of_parts,
    texts,
    usage_from_counts,
)
from everturn.replay.readers.values import Json, Reader, RecordedConversation, RecordedPreamble, SourceFile
from everturn.wire.json_values import is_list, is_object


def _runs(source: SourceFile) -> list[Json]:
    found = source.lines or (source.whole if is_list(source.whole) else [source.whole])
    return [each for each in found if is_object(each) and _is_run(each)]


def _is_run(value: Json) -> bool:
    history = value.get("history")
    return (
        "instance_id" in value
        and is_list(history)
        and any(is_object(each) and ("action" in each or "observation" in each) for each in history)
    )


def _recognises(source: SourceFile) -> bool:
    return bool(_runs(source))


def _conversations(source: SourceFile) -> Iterator[RecordedConversation]:
    found = _runs(source)
    for run in found:
        key = texts(run.get("instance_id")) if len(found) > 1 else ""
        yield _Run(run).conversation(key)


class _Run:
    """One run: its events, and the metrics of each response."""

    def __init__(self, run: Json) -> None:
        self._events = [event for event in run["history"] if is_object(event)]
        metrics = run.get("metrics")
        self._usages = _usages(metrics)
        self._cost = recorded_cost(metrics.get("accumulated_cost")) if is_object(metrics) else None
        metadata = run.get("metadata")
        config = metadata.get("llm_config") if is_object(metadata) else None
        self._model = texts(config.get("model")) if is_object(config) else ""
        self._builder = RecordBuilder()
        self._preamble = RecordedPreamble()
        # The tool call of each action, by action id.
        self._calls: dict[Any, str] = {}
        self._notes: list[str] = []

    def conversation(self, key: str) -> RecordedConversation:
        pending: list[Json] = []
        for event in self._events:
            if pending and _response(event) != _response(pending[0]):
                self._reply(pending)
                pending = []
            if _is_reply(event):
                pending.append(event)
            elif "observation" in event:
                # Observations of parallel calls can be between the actions of their response.
                self._reply(pending)
                pending = []
                self._observe(event)
            else:
                self._told(event)
        self._reply(pending)
        notes = (*self._notes, *self._builder.notes)
        return RecordedConversation((self._builder.thread,), key, notes, self._preamble, cost=self._cost)

    def _told(self, event: Json) -> None:
        args = event.get("args")
        given = args if is_object(args) else {}
        if event.get("action") == "system":
            self._preamble = RecordedPreamble(texts(given.get("content")), given.get("tools"))
        elif event.get("action") == "message" and event.get("source") == "user":
            self._builder.user(
                texts(given.get("content")) or texts(event.get("message")), event.get("timestamp")
            )
        elif event.get("action") == "condensation":
            self._notes.append("the agent condensed its history during the run; the full history is replayed")

    def _reply(self, actions: list[Json]) -> None:
        if not actions:
            return
        blocks: list[Block] = []
        response = _model_response(actions[0])
        message = _message(response)
        blocks.append(text_block(text_of_parts(message.get("content")) or _words(actions[0], message)))
        for action in actions:
            made = action.get("tool_call_metadata")
            if is_object(made):
                id = texts(made.get("tool_call_id"))
                self._calls[action.get("id")] = id
                given = _arguments(message, id)
                name = texts(made.get("function_name"))
                blocks.append(call_block(id, name, action.get("args") if given is None else given))
        id = texts(response.get("id"))
        usage = self._usages.get(id) or openai_usage(response.get("usage"))
        said = ReplyDetails(model=texts(response.get("model")) or self._model, id=id, usage=usage)
        self._builder.assistant(blocks, said, actions[0].get("timestamp"))

    def _observe(self, event: Json) -> None:
        if event.get("observation") in ("recall", "agent_state_changed", "null"):
            return
        made = event.get("tool_call_metadata")
        call = self._calls.get(event.get("cause")) or (
            texts(made.get("tool_call_id")) if is_object(made) else ""
        )
        failed = event.get("observation") == "error"
        content = texts(event.get("content")) or texts(event.get("message"))
        self._builder.result(call, content, event.get("timestamp"), failed=failed)


def _is_reply(event: Json) -> bool:
    """Whether the model did it: every event of the agent except the system prompt and bookkeeping."""
    return event.get("source") == "agent" and event.get("action") not in (
        None, "system", "recall", "change_agent_state", "null", "condensation",
    )  # fmt: skip


def _response(event: Json) -> Any:
    """Identifies a reply: the id of the response; an action without one is a separate reply."""
    return texts(_model_response(event).get("id")) or event.get("id")


def _model_response(event: Json) -> Json:
    made = event.get("tool_call_metadata")
    response = made.get("model_response") if is_object(made) else None
    return response if is_object(response) else {}


def _message(response: Json) -> Json:
    choices = response.get("choices")
    first = choices[0] if is_list(choices) and choices else None
    message = first.get("message") if is_object(first) else None
    return message if is_object(message) else {}


def _words(action: Json, message: Json) -> str:
    """The text of a reply without a recorded response: the thought, or a plain message."""
    args = action.get("args")
    if message or not is_object(args):
        return ""
    if "tool_call_metadata" in action:
        return texts(args.get("thought"))
    return texts(args.get("content")) or texts(args.get("thought")) or texts(action.get("message"))


def _arguments(message: Json, id: str) -> Any:
    for call in message.get("tool_calls") or ():
        if is_object(call) and call.get("id") == id and is_object(call.get("function")):
            return call["function"].get("arguments")
    return None


def _usages(metrics: Any) -> dict[str, Usage | None]:
    listed = metrics.get("token_usages") if is_object(metrics) else None
    return {
        texts(each.get("response_id")): usage_from_counts(
            prompt=each.get("prompt_tokens"),
            read=each.get("cache_read_tokens"),
            written=each.get("cache_write_tokens"),
            output=each.get("completion_tokens"),
        )
        for each in listed or ()
        if is_object(each)
    }


OPENHANDS: Final = Reader("openhands", _recognises, _conversations)
