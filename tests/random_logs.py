"""Random logs for laws: such as agents write, and such as crashes and other tools leave behind.

Every text carries a token that occurs nowhere else, so that a law can ask where it went.
"""

import builders as b
from hypothesis import strategies as st

from everturn.history.edits import Cleared, Edit, Offloaded, Pinned, ThinkingDropped
from everturn.history.records import Record

CALLS = ("c1", "c2", "c3", "")


class Tokens:
    """Words that are never said twice."""

    def __init__(self) -> None:
        self.count = 0
        self.replies = 1

    def fresh(self) -> str:
        self.count += 1
        return f"word{self.count}x"


@st.composite
def broken_logs(draw: st.DrawFn, most: int = 12, *, edits: bool = False) -> list[Record]:
    """Anything goes: missing, repeated and orphan results, empty texts, blocks in the wrong place."""
    tokens = Tokens()
    kinds = ["user", "user", "assistant", "assistant", "assistant", "attachment", "bookkeeping", "unsent"]
    count = draw(st.integers(0, most))
    return [_any_record(draw, draw(st.sampled_from(kinds + ["edit"] * edits)), tokens) for _ in range(count)]


def _any_record(draw: st.DrawFn, kind: str, tokens: Tokens) -> Record:
    name = tokens.fresh()
    if kind == "user":
        shape = draw(st.sampled_from(["words", "blank", "blocks", "blocks", "blocks"]))
        plain = {"words": name, "blank": " \n"}
        return b.user(plain.get(shape) or _blocks(draw, tokens), uuid=name)
    if kind == "assistant":
        return b.assistant(*_blocks(draw, tokens), id=_message_id(draw, tokens), uuid=name)
    if kind == "attachment":
        contents = ["", f"{name} said", [{"type": "text", "text": name}], {"file": {"content": name}}]
        return b.attachment(draw(st.sampled_from(contents)), uuid=name)
    if kind == "edit":
        return b.edited(_edit(draw, tokens), name)
    if kind == "bookkeeping":
        return draw(st.sampled_from([b.progress(name), b.system(uuid=name)]))
    flag = {"isVirtual": True}
    return draw(
        st.sampled_from([b.user(name, **flag), b.assistant(name, uuid=name, isApiErrorMessage=True, id="e")])
    )


def _message_id(draw: st.DrawFn, tokens: Tokens) -> str:
    """Of the response at hand, of the next one, rarely of an old one or of none."""
    step = draw(st.sampled_from(["same", "same", "next", "next", "next", "old", "none"]))
    tokens.replies += step == "next"
    return {"old": "m1", "none": ""}.get(step, f"m{tokens.replies}")


def _edit(draw: st.DrawFn, tokens: Tokens) -> Edit:
    """An edit that leaves the view standing, of records that may be there."""
    calls = tuple(draw(st.lists(st.sampled_from(CALLS[:3]), unique=True)))
    some = f"word{draw(st.integers(1, tokens.count))}x"
    return draw(
        st.sampled_from(
            [
                Cleared(calls, "made room"),
                Offloaded(draw(st.sampled_from(CALLS)), "a/file", "it begins", 90_000),
                ThinkingDropped(some),
                Pinned("the port is 8080"),
            ]
        )
    )


def _blocks(draw: st.DrawFn, tokens: Tokens) -> list[b.Fields]:
    return [_block(draw, tokens.fresh()) for _ in range(draw(st.integers(0, 3)))]


def _block(draw: st.DrawFn, word: str) -> b.Fields:
    name = draw(st.sampled_from(CALLS))
    return draw(
        st.sampled_from(
            [
                b.say(word),
                b.say("" if name else "\t "),
                b.think(word),
                b.call(name, "Read", path=word),
                b.call(name, "Read"),
                b.answer(name, word),
                b.answer(name, [{"type": "text", "text": word}]),
                {"type": "from_the_future", "words": word},
            ]
        )
    )


@st.composite
def sound_logs(draw: st.DrawFn, most: int = 5) -> list[Record]:
    """Turns as an agent records them: one block a line, parallel calls interleaved with their results."""
    tokens = Tokens()
    found: list[Record] = []
    for at in range(draw(st.integers(1, most))):
        found.append(b.user(tokens.fresh()))
        for step in range(draw(st.integers(0, 2))):
            found += _round(draw, f"m{at}-{step}", tokens)
        if draw(st.booleans()):
            found.append(b.assistant(b.think(tokens.fresh()), id=f"m{at}-last"))
        found.append(b.assistant(tokens.fresh(), id=f"m{at}-last"))
    return found


def _round(draw: st.DrawFn, message: str, tokens: Tokens) -> list[Record]:
    found: list[Record] = []
    if draw(st.booleans()):
        found.append(b.assistant(b.think(tokens.fresh()), id=message))
    waiting: list[Record] = []
    for at in range(draw(st.integers(1, 3))):
        name = f"{message}-c{at}"
        found.append(b.assistant(b.call(name, path=tokens.fresh()), id=message))
        waiting.append(b.result(name, tokens.fresh()))
        if draw(st.booleans()):
            found += [waiting.pop(0)]
        if draw(st.booleans()):
            found.append(b.attachment(tokens.fresh()))
    return found + draw(st.permutations(waiting))


def words_of(record: Record) -> list[str]:
    """The tokens in what a record says."""
    raw = b"".join(block.raw for block in record.blocks).decode()
    return [word for word in _split(raw) if word.startswith("word") and word.endswith("x")]


def _split(raw: str) -> list[str]:
    return "".join(c if c.isalnum() else " " for c in raw).split()
