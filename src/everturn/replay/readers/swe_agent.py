"""SWE-agent's .traj and mini-SWE-agent's .traj.json.

Both have runs in which the model writes its command into its words and is told the output as the next user
message. There the command becomes a call of `bash` and the output its result: that is what they are, and
policies that forget results would have nothing to forget otherwise.
"""

import re
from collections.abc import Iterator, Sequence
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
    text_of_parts,
    texts,
)
from everturn.replay.readers.values import Reader, RecordedConversation, RecordedPreamble, SourceFile

_TOOL: Final = "bash"
_COMMAND: Final = re.compile(r"```(?:bash|mswea_bash_command)\s*\n(.*?)\n?```", re.DOTALL)


def _follow(messages: Sequence[dict[str, Any]], notebook: RecordBuilder, *, model: str) -> str:
    """Write a run down, commands in words included; answers its system prompt."""
    system: list[str] = []
    waiting = ""
    for at, message in enumerate(messages):
        role = message.get("role")
        if message.get("tool_calls") or role in ("tool", "function"):
            read_messages([message], notebook, model=model)
        elif role == "system":
            system.append(text_of_parts(message.get("content")))
        elif role == "assistant":
            answered = at + 1 < len(messages) and messages[at + 1].get("role") == "user"
            waiting = f"run-{at}" if answered and _command(message) else ""
            _say(message, notebook, call=waiting, model=model)
        elif role == "user":
            words = text_of_parts(message.get("content"))
            if waiting:
                notebook.result(waiting, words)
            else:
                notebook.user(words)
            waiting = ""
    return "\n\n".join(words for words in system if words)


def _say(message: dict[str, Any], notebook: RecordBuilder, *, call: str, model: str) -> None:
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
    notebook.assistant(blocks, said, response.get("created"))


def _command(message: dict[str, Any]) -> str:
    """The one command of a message: named beside it, or the only block of code for the shell in it."""
    if action := texts(message.get("action")).strip():
        return action
    found = _COMMAND.findall(text_of_parts(message.get("content")))
    return found[0] if len(found) == 1 else ""


def _is_mini(source: SourceFile) -> bool:
    whole = source.whole
    if isinstance(whole, dict):
        named = texts(whole.get("trajectory_format")).startswith("mini-swe-agent")
        return named and are_messages(whole.get("messages"))
    # Older files are a bare list: known by the shell command in the model's first words.
    if not are_messages(whole) or any("tool_calls" in each for each in whole):
        return False
    first = next((each for each in whole if each["role"] == "assistant"), {})
    return whole[0]["role"] == "system" and bool(_command(first))


def _mini(source: SourceFile) -> Iterator[RecordedConversation]:
    whole = source.whole
    messages = whole["messages"] if isinstance(whole, dict) else whole
    notebook = RecordBuilder()
    system = _follow(messages, notebook, model=_mini_model(whole))
    yield RecordedConversation((notebook.thread,), "", notebook.notes, RecordedPreamble(system))


def _mini_model(whole: Any) -> str:
    for name in ("info", "config", "model"):
        whole = whole.get(name) if isinstance(whole, dict) else None
    return texts(whole.get("model_name")) if isinstance(whole, dict) else ""


MINI_SWE_AGENT: Final = Reader("mini-swe-agent", _is_mini, _mini)


def _is_swe(source: SourceFile) -> bool:
    whole = source.whole
    return isinstance(whole, dict) and "trajectory" in whole and are_messages(whole.get("history"))


def _swe(source: SourceFile) -> Iterator[RecordedConversation]:
    whole = source.whole
    by_agent: dict[str, list[dict[str, Any]]] = {}
    for message in whole["history"]:
        by_agent.setdefault(texts(message.get("agent")), []).append(message)
    books: list[RecordBuilder] = []
    systems: list[str] = []
    for agent, messages in by_agent.items():
        books.append(RecordBuilder(agent=agent if books else ""))
        systems.append(_follow(messages, books[-1], model=_swe_model(whole.get("replay_config"))))
    threads = tuple(book.thread for book in books)
    yield RecordedConversation(threads, "", books[0].notes, RecordedPreamble(systems[0]))


def _swe_model(config: Any) -> str:
    if isinstance(config, str):
        try:
            config = msgspec.json.decode(config)
        except msgspec.DecodeError:
            return ""
    for name in ("agent", "model"):
        config = config.get(name) if isinstance(config, dict) else None
    return texts(config.get("name")) if isinstance(config, dict) else ""


SWE_AGENT: Final = Reader("swe-agent", _is_swe, _swe)
