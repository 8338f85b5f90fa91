"""The rules of the API for a list of messages (TR-11).

Knows nothing about how messages are built. That makes it an independent check of `view/flatten.py`.
"""

from collections.abc import Sequence

from everturn.history.messages import Message, is_blank


def find_message_problems(messages: Sequence[Message]) -> tuple[str, ...]:
    """The reasons why the API would refuse these messages; empty if it would accept them."""
    found: list[str] = []
    seen: set[str] = set()
    for at, message in enumerate(messages):
        found.extend(f"messages.{at}: {what}" for what in _alone(message))
        if at == 0 and message.role != "user":
            found.append("messages.0: the first message is not the user's")
        if at > 0 and message.role == messages[at - 1].role:
            found.append(f"messages.{at}: two {message.role} messages in a row")
        follower = messages[at + 1] if at + 1 < len(messages) else None
        found.extend(f"messages.{at}: {what}" for what in _pairing(message, follower, seen))
        previous = messages[at - 1].calls if at > 0 and messages[at - 1].role == "assistant" else ()
        orphans = [call for call in message.results if call not in previous]
        found.extend(f"messages.{at}: result of {call} without its call" for call in orphans)
    return tuple(found)


def _alone(message: Message) -> list[str]:
    """The problems of a message by itself."""
    found: list[str] = []
    if not message.blocks:
        found.append("empty content")
    if any(is_blank(block) for block in message.blocks):
        found.append("a text block without text")
    wrong = "tool_result" if message.role == "assistant" else "tool_use"
    if any(block.kind == wrong or (message.role == "user" and block.is_thinking) for block in message.blocks):
        found.append(f"a block type that is not allowed in {message.role} messages")
    kinds = [block.is_result for block in message.blocks]
    if True in kinds and not all(kinds[: kinds.count(True)]):
        found.append("tool results are not the first blocks")
    if len(set(message.results)) != len(message.results):
        found.append("two results for one call")
    return found


def _pairing(message: Message, follower: Message | None, seen: set[str]) -> list[str]:
    found: list[str] = []
    for call in message.calls:
        if not call or call in seen:
            found.append(f"call id {call!r} is empty or used twice")
        seen.add(call)
        if follower is None or call not in follower.results:
            found.append(f"call {call} has no result in the next message")
    return found
