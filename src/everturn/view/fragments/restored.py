"""What is restored after a compaction: files, todos, plan, skills, agents, tools, pins (CP-13 to 17, 32).

Each is the content of an attachment: a heading, and then the item itself as its own element, so that the next
compaction finds it again without parsing our own sentences.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from everturn.view.fragments.escaping import OUTPUT_TAG, escaped


def file(path: str, text: str, *, is_cut: bool) -> tuple[str, str]:
    how = "its beginning; read the rest where needed" if is_cut else "whole"
    return f"{path} was read before the compaction. This is its content now ({how}):", escaped(text)


def outline(root: str, lines: Iterable[str]) -> tuple[str, ...]:
    below = f", below {escaped(root)}" if root else ""
    heading = f"Files that were seen before the compaction{below}, each with names that it defines:"
    return heading, *map(escaped, lines)


def exchange(text: str) -> tuple[str, str]:
    return "This call was made before the compaction. It and its result are shown as they were then:", text


def exchange_text(tool: str, given: Mapping[str, Any], answer: str) -> str:
    """A call with its input and its result. Texts keep their lines, so that they can be quoted."""
    lines = (f"{name}: {value if isinstance(value, str) else _json(value)}" for name, value in given.items())
    asked = escaped("\n".join((f"[{tool}]", *lines)))
    return f"{asked}\n<{OUTPUT_TAG}>\n{escaped(answer)}\n</{OUTPUT_TAG}>"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def files_left_out(problems: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    listed = (f"- {path}: {problem}" for path, problem in problems)
    return "These files were read before the compaction and could not be shown again:", *listed


def unanswered(text: str, *, is_cut: bool) -> tuple[str, str]:
    """`text` is escaped already: it marks what tools gave, and that mark must stay one."""
    how = "; its middle is left out here and is in the transcript" if is_cut else ""
    return f"What was said last, word for word, and has no answer yet{how}:", text


def todos(lines: str) -> tuple[str, str]:
    return "The todo list as it stands; keep it up to date with the tool that made it:", escaped(lines)


def plan(text: str) -> tuple[str, str]:
    return "The plan that was made before the compaction, whole:", escaped(text)


PLAN_MODE = (
    "Plan mode is on: look and think, change nothing, and present the plan for approval before any edit.",
)


def skill(name: str, text: str, *, is_cut: bool) -> tuple[str, str]:
    how = "; only its beginning is shown, invoke it again for the rest" if is_cut else ""
    return f"The skill {name} was invoked in this session and still applies{how}:", escaped(text)


def agents(lines: Iterable[str]) -> tuple[str, ...]:
    heading = "These agents were started in the background and not yet collected. Do not start them again:"
    return heading, *map(escaped, lines)


def tools(names: Sequence[str]) -> tuple[str, ...]:
    return "These tools can be loaded with the tool search:", ", ".join(names)


def listing(title: str, lines: Iterable[str]) -> tuple[str, ...]:
    return f"{title}:", *map(escaped, lines)


def pins(texts: Iterable[str]) -> tuple[str, ...]:
    heading = (
        "What the user asked to be kept to, word for word. It holds until the user says otherwise; where two "
        "of these disagree, the later one holds:"
    )
    return heading, *map(escaped, texts)
