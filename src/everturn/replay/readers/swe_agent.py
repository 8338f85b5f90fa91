"""SWE-agent's .traj and mini-SWE-agent's .traj.json.

In some runs of both, the model writes its command as text and receives the output as the next user message.
The command becomes a call of `bash` here and the output its result. Otherwise policies that clear results
would have nothing to clear.
"""

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, Final

import msgspec

from everturn.history.blocks import Block, text_block
from everturn.replay.readers.openai_messages import (
    are_messages,
    openai_usage,
    read_messages,
    response_of,
)
from everturn.replay.readers.record_builder import (
    RecordBuilder,
    ReplyDetails,
    call_block,
    recorded_cost,
    text_of_parts,
    texts,
)
from everturn.replay.readers.values import Json, Reader, RecordedConversation, RecordedPreamble, SourceFile
from everturn.wire.json_values import is_object

_TOOL: Final = "bash"
_COMMAND: Final = re.compile(r"```(?:bash|mswea_bash_command)[ \t]*\n(.*?)```", re.DOTALL)


def _follow(messages: Sequence[Json], builder: RecordBuilder, *, model: str) -> str:
    """Adds a run, including commands in text, and returns its system prompt."""
    system: list[str] = []
    waiting = ""
    for at, message in enumerate(messages):
        role = message.get("role")
        if message.get("tool_calls") or role in ("tool", "function"):
            read_messages([message], builder, model=model)
        elif role == "system":
            system.append(text_of_parts(message.get("content")))
        elif role == "assistant":
            answered = at + 1 < len(messages) and messages[at + 1].get("role") == "user"
            waiting = f"run-{at}" if answered and _command(message) else ""
            _say(message, builder, call=waiting, model=model)
        elif role == "user":
            words = text_of_parts(message.get("content"))
            if waiting:
                builder.result(waiting, words)
            else:
                builder.user(words)
            waiting = ""
    return "\n\n".join(words for words in system if words)


def _say(message: Json, builder: RecordBuilder, *, call: str, model: str) -> None:
    content = text_of_parts(message.get("content"))
    blocks: list[Block] = [text_block(content)]
    if call:
        thought = texts(message.get("thought")) or _COMMAND.sub("", content)
        blocks = [text_block(thought), call_block(call, _TOOL, {"command": _command(message)})]
    response = response_of(message)
    said = ReplyDetails(
        model=texts(response.get("model")) or model,
        id=texts(response.get("id")),
        usage=openai_usage(response.get("usage")),
    )
    builder.assistant(blocks, said, response.get("created"))


def _command(message: Json) -> str:
    """The one command of a message: recorded with it, or the only shell code block in it."""
    if action := texts(message.get("action")).strip():
        return action
    found = _COMMAND.findall(text_of_parts(message.get("content")))
    return found[0].removesuffix("\n") if len(found) == 1 else ""


def _is_mini(source: SourceFile) -> bool:
    whole = source.whole
    if is_object(whole):
        named = texts(whole.get("trajectory_format")).startswith("mini-swe-agent")
        return named and are_messages(whole.get("messages"))
    # Older files are a plain list, recognised by the shell command in the model's first message.
    if not are_messages(whole) or any("tool_calls" in each for each in whole):
        return False
    first = next((each for each in whole if each["role"] == "assistant"), None)
    return whole[0]["role"] == "system" and first is not None and bool(_command(first))


def _mini(source: SourceFile) -> Iterator[RecordedConversation]:
    whole = source.whole
    messages = whole["messages"] if is_object(whole) else whole
    builder = RecordBuilder()
    system = _follow(messages, builder, model=_mini_model(whole))
    preamble = RecordedPreamble(system)
    yield RecordedConversation((builder.thread,), "", builder.notes, preamble, cost=_cost(whole))


def _cost(whole: Any) -> Decimal | None:
    for name in ("info", "model_stats"):
        whole = whole.get(name) if is_object(whole) else None
    return recorded_cost(whole.get("instance_cost")) if is_object(whole) else None


def _mini_model(whole: Any) -> str:
    for name in ("info", "config", "model"):
        whole = whole.get(name) if is_object(whole) else None
    return texts(whole.get("model_name")) if is_object(whole) else ""


MINI_SWE_AGENT: Final = Reader("mini-swe-agent", _is_mini, _mini)


def _is_swe(source: SourceFile) -> bool:
    whole = source.whole
    return is_object(whole) and "trajectory" in whole and are_messages(whole.get("history"))


def _swe(source: SourceFile) -> Iterator[RecordedConversation]:
    whole = source.whole
    by_agent: dict[str, list[Json]] = {}
    for message in whole["history"]:
        by_agent.setdefault(texts(message.get("agent")), []).append(message)
    books: list[RecordBuilder] = []
    systems: list[str] = []
    for agent, messages in by_agent.items():
        books.append(RecordBuilder(agent=agent if books else ""))
        systems.append(_follow(messages, books[-1], model=_swe_model(whole.get("replay_config"))))
    threads = tuple(book.thread for book in books)
    preamble = RecordedPreamble(systems[0])
    yield RecordedConversation(threads, "", books[0].notes, preamble, cost=_cost(whole))


def _swe_model(config: Any) -> str:
    if isinstance(config, str):
        try:
            config = msgspec.json.decode(config)
        except msgspec.DecodeError:
            return ""
    for name in ("agent", "model"):
        config = config.get(name) if is_object(config) else None
    return texts(config.get("name")) if is_object(config) else ""


SWE_AGENT: Final = Reader("swe-agent", _is_swe, _swe)
