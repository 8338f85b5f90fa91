"""Callers that rewrite a message of what is summarized, such as notes at the front of their list."""

import json
import re

import pytest

from everturn.decide.events import CompactionDone, PredictionMissed

SMALL = {"window": 40_000}
STEPS, EVERY = 40, 5
READ = {"name": "Read", "description": "Reads.", "input_schema": {"type": "object"}}
MODES = {
    "claude-haiku-4-5": {},
    "claude-haiku-4-5, thinking": {"thinking": {"type": "enabled", "budget_tokens": 1_024}},
    # Thinking that is bound to what comes before it.
    "claude-opus-5-5": {"thinking": {"type": "adaptive"}},
}


def text(words):
    return {"type": "text", "text": words}


def notes(version):
    return f"NOTE{version} the reader of part {version} was looked at, and part {version} is fine. " * 12


def tagged(version):
    return f"<memory>{notes(version)}</memory>\n\nGo through all parts."


def quoted(version):
    """Without a tag the twin quotes it in its summaries, as models do."""
    return f"Notes so far: {notes(version)}\n\nGo through all parts."


def two_blocks(version):
    return [text(f"Notes so far: {notes(version)}"), text("Go through all parts, one after the other.")]


def reply(number, *, thinks):
    call = {
        "type": "tool_use",
        "id": f"toolu_{number}",
        "name": "Read",
        "input": {"file_path": f"{number}.py"},
    }
    thought = [{"type": "thinking", "thinking": "Let me see. " * 8}] if thinks and number % 3 == 0 else []
    return {"content": [*thought, call]}


def result(number):
    return {
        "type": "tool_result",
        "tool_use_id": f"toolu_{number}",
        "content": f"line {number} of it\n" * 180,
    }


class Agent:
    """One tool loop behind a message with notes, which are written anew every so many steps."""

    def __init__(self, bench, spell, mode="claude-haiku-4-5"):
        self.bench, self.spell = bench, spell
        self.more = {"model": mode.split(",")[0], "max_tokens": 3_000, "tools": [READ], **MODES[mode]}
        self.history = []
        # The versions of the notes that each request had, and those that it should have.
        self.sent, self.asked = [], []
        # Whether the request in which notes were written anew has them word for word.
        self.whole = []

    def run(self, steps=STEPS, every=EVERY):
        before = self._dollars()
        for number in range(len(self.history) // 2, steps):
            self.step(number, number // every if every else 0)
        self.bench.check()
        return self._dollars() - before

    def step(self, number, version):
        twin, at = self.bench.twin, len(self.bench.sent)
        twin.twin.speaker.clear()
        twin.script(reply(number, thinks="thinking" in self.more))
        said = [{"role": "user", "content": self.spell(version)}, *self.history]
        answer = self.bench.ask(said, **self.more)
        blocks = [block.model_dump(exclude_none=True) for block in answer.content]
        self.history += [
            {"role": "assistant", "content": blocks},
            {"role": "user", "content": [result(number)]},
        ]
        if version and number % EVERY == 0:
            self.whole.append(self._has_whole(version))
        for body in self.bench.sent[at:]:
            self.sent.append(set(re.findall(r"NOTE\d+", json.dumps(body))))
            self.asked.append({f"NOTE{version}"})
        twin.advance(3)

    def _has_whole(self, version):
        """Whether the last request has these notes word for word."""
        said = json.dumps(self.bench.sent[-1]["messages"])
        return json.dumps(notes(version).strip())[1:-1] in said

    def _dollars(self):
        return sum(entry["dollars"] for entry in self.bench.twin.ledger)


def count_compactions(bench):
    return sum(isinstance(event, CompactionDone) for event in bench.events)


@pytest.mark.spec("GW-11")
@pytest.mark.moves_cache_prefix(reason="the caller changes the first message of its list")
@pytest.mark.parametrize(
    ("mode", "spell"),
    [
        *((mode, tagged) for mode in MODES),
        *(("claude-haiku-4-5", spell) for spell in (quoted, two_blocks)),
        ("claude-opus-5-5", quoted),
    ],
)
def test_notes_that_are_rewritten_are_sent_as_they_are_now_and_nothing_is_summarized_anew(
    benches, spell, mode
):
    constant, bench = benches(**SMALL), benches(**SMALL, folder_name="rewritten")
    usual = Agent(constant, spell, mode).run(every=0)
    agent = Agent(bench, spell, mode)
    cost = agent.run()
    # No word of notes that the caller has replaced, in a request for a summary neither.
    assert [sent - asked for sent, asked in zip(agent.sent, agent.asked, strict=True)] == [set()] * len(
        agent.sent
    )
    assert agent.whole == [True] * 7
    assert count_compactions(bench) <= count_compactions(constant) + 2
    assert cost < 1.5 * usual
    assert [event for event in bench.events if isinstance(event, PredictionMissed)] == []


@pytest.mark.moves_cache_prefix(reason="the caller changes the first message of its list, and undoes")
def test_a_conversation_whose_notes_were_rewritten_goes_on_after_a_restart_and_an_undo(benches):
    bench = benches(**SMALL)
    agent = Agent(bench, quoted)
    agent.run(steps=27)
    files = bench.transcripts
    bench.restart()
    agent.run(steps=29)
    assert bench.middleware.conversations[0].compactions > 0
    bench.middleware.undo()
    agent.run(steps=30)
    assert (len(bench.middleware.conversations), bench.transcripts) == (1, files)
    assert [sent - asked for sent, asked in zip(agent.sent, agent.asked, strict=True)] == [set()] * len(
        agent.sent
    )


@pytest.mark.parametrize("came", ["with the list", "from here"])
def test_only_replies_that_came_through_everturn_show_whose_notes_were_rewritten(benches, came):
    """Lists of several callers may have the same examples."""
    bench = benches(**SMALL)
    history = []
    for number in range(12):
        said = {"role": "user", "content": f"Entry {number}: " + "A long log line. " * 300}
        words = f"Answer {number}. " + "It is as the log says. " * 30
        if came == "from here":
            bench.twin.twin.speaker.clear()
            bench.twin.script(words)
            bench.ask([*history, said])
        history += [said, {"role": "assistant", "content": words}]
    bench.twin.twin.speaker.clear()
    bench.ask([*history, {"role": "user", "content": "And now?"}])
    made = count_compactions(bench)
    changed = [{"role": "user", "content": "Something else: " + "A short log line. " * 300}, *history[1:]]
    bench.ask([*changed, {"role": "user", "content": "And now?"}])
    bench.check()
    assert made > 0
    assert count_compactions(bench) - made == (1 if came == "with the list" else 0)
