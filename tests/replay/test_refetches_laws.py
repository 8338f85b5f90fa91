"""Laws of refetches over random conversations, compared with a naive model of what is visible."""

import os
import subprocess
import sys

import pytest
from builders import assistant, call, result, user
from hypothesis import given
from hypothesis import strategies as st

from everturn.history.threads import Thread
from everturn.replay.refetches import Refetch, Visibility, index_threads
from everturn.replay.refetches.cover import cover_missing

WORDS = ("src/shop.py", "lib/text.py", "parse_line", "total_price", "a plain long line of text", "yes")
STEP = st.tuples(
    st.sampled_from(["user", "reply", "edit"]),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=3),
    st.lists(st.sampled_from(WORDS), max_size=4),
)
STEPS = st.lists(STEP, min_size=1, max_size=12)


def conversation(steps):
    """Every step is a message; a tool call is answered by its third part, line by line."""
    records = [user("Begin.", uuid="u")]
    for at, (kind, said, answered) in enumerate(steps):
        if kind == "user":
            records.append(user("\n".join(said), uuid=f"u{at}"))
            continue
        inputs = {"old_string" if kind == "edit" else "command": "\n".join(said)}
        records.append(assistant(call(f"c{at}", "Tool", **inputs), id=f"m{at}", uuid=f"a{at}"))
        records.append(result(f"c{at}", "\n".join(answered) or "nothing", uuid=f"r{at}"))
    return tuple(records)


def indexed(records):
    return index_threads([Thread("", records)])


@pytest.mark.spec("RP-6")
@given(STEPS)
def test_with_nothing_hidden_nothing_is_ever_missing(steps):
    records = conversation(steps)
    uses = indexed(records)
    visible = Visibility(uses)
    for record in records:
        assert visible.refetch(uses.threads[0].numbers.get(record.uuid, 0)) == ()
        visible.see(record)


@given(STEPS, st.data())
def test_hiding_more_never_needs_fewer_blocks(steps, data):
    records = conversation(steps)
    uses = indexed(records)
    names = [record.uuid for record in records]
    some = data.draw(st.sets(st.sampled_from(names)))
    more = some | data.draw(st.sets(st.sampled_from(names)))
    less_hidden, more_hidden = Visibility(uses), Visibility(uses)
    less_hidden.hide(some)
    more_hidden.hide(more)
    for record in records:
        number = uses.threads[0].numbers.get(record.uuid, 0)
        assert len(less_hidden.missing(number)) <= len(more_hidden.missing(number))
        less_hidden.see(record)
        more_hidden.see(record)


class NaiveVisibility:
    """What is visible as plain sets of blocks, searched from the newest to the oldest."""

    def __init__(self, uses):
        self.uses = uses.threads[0]
        self.view, self.hidden, self.fetched = set(), set(), set()

    def refetch(self, number):
        if not number:
            return ()
        asked = self.uses.calls[number - 1]
        shown = {at for at in self.view if not self._is_hidden(self.uses.blocks[at])} | self.fetched
        unseen = [
            string
            for string in asked.uses
            if not shown.intersection(
                at for at, block in enumerate(self.uses.blocks) if string in block.holds
            )
        ]
        found = cover_missing(self.uses, asked, unseen)
        self.fetched |= {each.block for each in found}
        return tuple(map(self._refetch, found))

    def _is_hidden(self, block):
        return bool({block.record, block.answers} & self.hidden)

    def _refetch(self, fetched):
        kind, what = self.uses.strings[fetched.strings[0]]
        return Refetch(self.uses.blocks[fetched.block].name, fetched.tokens, what, kind, fetched.tier)

    def see(self, record):
        self.view |= set(self.uses.members[record.uuid])

    def hide(self, names):
        self.hidden |= set(names)

    def replace(self, names):
        self.view = {at for name in names for at in self.uses.members[name]}
        self.fetched = set()


@pytest.mark.spec("RP-6")
@given(STEPS, st.data())
def test_refetches_are_those_of_a_naive_look_through_everything(steps, data):
    records = conversation(steps)
    uses = indexed(records)
    clever, naive = Visibility(uses), NaiveVisibility(uses)
    seen: list[str] = []
    for record in records:
        number = uses.threads[0].numbers.get(record.uuid, 0)
        assert clever.refetch(number) == naive.refetch(number)
        clever.see(record)
        naive.see(record)
        seen += [record.uuid, *(block.call for block in record.blocks if block.is_result)]
        way = data.draw(st.sampled_from(["nothing", "hide", "replace"]))
        if way == "hide":
            names = data.draw(st.sets(st.sampled_from(seen), max_size=3))
            clever.hide(names)
            naive.hide(names)
        elif way == "replace":
            uuids = st.sampled_from([name for name in seen if name in uses.threads[0].members])
            names = data.draw(st.sets(uuids))
            clever.replace(names)
            naive.replace(names)


PROGRAM = """
from everturn.history.threads import Thread
from everturn.replay.demo_session import make_demo_session
from everturn.replay.refetches import Visibility, index_threads
records, _ = make_demo_session(seed=3, turns=40)
uses = index_threads([Thread("", tuple(records))])
visible = Visibility(uses)
print(uses, [visible.refetch(call.number) for call in uses.threads[0].calls])
"""


def test_the_index_and_the_refetches_do_not_depend_on_how_the_process_hashes():
    printed = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    (only,) = printed
    assert b"Refetch(" in only
