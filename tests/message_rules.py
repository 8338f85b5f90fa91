"""The rules of the API for a list of messages (TR-11).

Knows nothing about how messages are built. That makes it an independent check of `view/flatten.py`.
"""

from collections.abc import Sequence

from everturn.history.messages import Message, is_blank


def find_message_problems(messages: Sequence[Message]) -> tuple[str, ...]:
    """The reasons why the API would refuse these messages; empty if it would accept them."""
    found: list[str] = []
    seen: set[str] = set()
    results = [message.results for message in messages]
    before: tuple[str, ...] = ()
    for at, message in enumerate(messages):
        problems = _alone(message, results[at])
        if at == 0 and message.role != "user":
            problems.append("the first message is not the user's")
        if at > 0 and message.role == messages[at - 1].role:
            problems.append(f"two {message.role} messages in a row")
        calls = message.calls
        problems += _pairing(calls, results[at + 1] if at + 1 < len(messages) else (), seen)
        problems += [f"result of {call} without its call" for call in results[at] if call not in before]
        before = calls if message.role == "assistant" else ()
        found += [f"messages.{at}: {what}" for what in problems]
    return tuple(found)


def _alone(message: Message, results: Sequence[str]) -> list[str]:
    """The problems of a message by itself."""
    found: list[str] = []
    if not message.blocks:
        found.append("empty content")
    is_user = message.role == "user"
    wrong = "tool_use" if is_user else "tool_result"
    has_blank = has_wrong = has_other = is_late = False
    for block in message.blocks:
        has_blank = has_blank or is_blank(block)
        has_wrong = has_wrong or block.kind == wrong or (is_user and block.is_thinking)
        is_late = is_late or (has_other and block.is_result)
        has_other = has_other or not block.is_result
    if has_blank:
        found.append("a text block without text")
    if has_wrong:
        found.append(f"a block type that is not allowed in {message.role} messages")
    if is_late:
        found.append("tool results are not the first blocks")
    if len(set(results)) != len(results):
        found.append("two results for one call")
    return found


def _pairing(calls: Sequence[str], results: Sequence[str], seen: set[str]) -> list[str]:
    """The problems of the calls of a message, with the results in the next one."""
    found: list[str] = []
    for call in calls:
        if not call or call in seen:
            found.append(f"call id {call!r} is empty or used twice")
        seen.add(call)
        if call not in results:
            found.append(f"call {call} has no result in the next message")
    return found
