"""The /rewind command: go back to an earlier message, summarize from it or up to it, or return to a branch.

/rewind              list your latest messages, newest first, and the branches left behind
/rewind 2            go back to before message 2
/rewind 2 from       summarize message 2 and all that came after it
/rewind 2 up-to      summarize what came before message 2
/rewind b1           return to branch b1
"""

from collections.abc import Iterable
from textwrap import shorten
from typing import Final

from rich.text import Text

from everturn.chat.agent import ChatAgent
from everturn.dashboard.layout import counted
from everturn.dashboard.terminal import QUIET
from everturn.decide.branches import Branch
from everturn.decide.compact.values import Compaction, CompactionSkipped
from everturn.decide.rewind import text_of_record
from everturn.engine import CompactionOutcome
from everturn.history.records import Record
from everturn.session.session import Rewind
from everturn.view.flatten import is_shown_to_user

# How many messages and branches are listed.
MAX_LISTED: Final = 15
_HINT: Final = (
    "/rewind NUMBER goes back to before that message; with `from` behind it, that message and what followed "
    "are summarized, with `up-to` what came before it. What is left behind stays in the transcript."
)
_BRANCHES: Final = "/rewind b1 returns to that branch."


def run_rewind(agent: ChatAgent, rest: str) -> Iterable[Text]:
    # Also what was summarized: going back to before a compaction brings the earlier context back.
    said = [record for record in agent.session.conversation.log.records if _is_said_by_user(record)]
    messages = {str(number): each for number, each in enumerate(reversed(said[-MAX_LISTED:]), start=1)}
    branches = agent.session.branches()[-MAX_LISTED:]
    left = {f"b{number}": each for number, each in enumerate(reversed(branches), start=1)}
    if not messages and not left:
        return format_sentence(agent, "Nothing was said yet.")
    name, _, how = rest.partition(" ")
    how = how.strip()
    if not name:
        return _list(agent, messages, left)
    if name in left and not how:
        return _return_to(agent, left[name])
    if name not in messages or how not in ("", "from", "up-to"):
        return format_sentence(agent, f"There is no message {rest!r} in the list; /rewind shows it.")
    chosen = messages[name].uuid
    if how == "from":
        return _summarize(agent, agent.session.compact(from_=chosen))
    if how == "up-to":
        return _summarize(agent, agent.session.compact(up_to=chosen))
    done = agent.session.rewind(chosen)
    agent.show_compactions()
    behind = f"{_tell_left(done)} To say it differently:"
    return [*format_sentence(agent, behind, QUIET), *format_sentence(agent, done.text)]


def _tell_left(done: Rewind) -> str:
    pins = "".join(f" No longer pinned: {_shorten(text)}." for text in done.pins)
    return f"{counted(done.messages, 'message')} left behind.{pins}"


def _list(agent: ChatAgent, messages: dict[str, Record], left: dict[str, Branch]) -> Iterable[Text]:
    for number, record in messages.items():
        yield Text(f"{number:>3}  {_shorten(text_of_record(record))}")
    for name, branch in left.items():
        yield Text(f"{name:>3}  {_shorten(branch.text)} ({counted(branch.messages, 'message')} left behind)")
    yield from format_sentence(agent, f"{_HINT} {_BRANCHES}" if left else _HINT, QUIET)


def _return_to(agent: ChatAgent, branch: Branch) -> Iterable[Text]:
    done = agent.session.rewind(branch.uuid)
    agent.show_compactions()
    yield from format_sentence(agent, f"Back on the branch; {_tell_left(done)}")
    yield from format_sentence(agent, done.text)


def _summarize(agent: ChatAgent, outcome: CompactionOutcome) -> Iterable[Text]:
    agent.show_compactions()
    return format_outcome(agent, outcome)


def format_outcome(agent: ChatAgent, outcome: CompactionOutcome) -> list[Text]:
    """What is said below a compaction that the user asked for."""
    if isinstance(outcome, Compaction):
        return [Text("/undo reverts it.", QUIET)]
    if isinstance(outcome, CompactionSkipped):
        return format_sentence(agent, f"Not compacted: {outcome.why.rstrip('.')}.")
    # Failed attempts were reported by their events.
    return []


def format_sentence(agent: ChatAgent, words: str, style: str = "") -> list[Text]:
    return [Text(line, style) for line in agent.terminal.screen.wrapped(words)] if words else []


def _is_said_by_user(record: Record) -> bool:
    is_own = record.kind == "user" and is_shown_to_user(record) and not record.compact_summary
    return is_own and not any(block.is_result for block in record.blocks)


def _shorten(words: str) -> str:
    return shorten(" ".join(words.split()), 60)
