"""Agents as people write them, through compactions: whatever they change, add, leave out or survive on the
way, no request is refused, nothing new is cut, and nothing is paid twice.

A row of the table is one agent. `Agent.run` plays it against the twin, which refuses what the API refuses.
"""

import asyncio
import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anthropic
import pytest
from adapters.framework_bench import Wire, asks_for_summary
from reliability.callers import Step, run
from reliability.scenes import quiet
from surfaces.desk import HAIKU, SUMMARY, Json, result, text, tool
from surfaces.random_compactions import drop_replies, image

import everturn
from everturn.decide.events import PassedThrough
from everturn.twin.request_text import new_id
from everturn.twin.testing import TwinForTests
from everturn.twin.values import ModelOutput, ParsedRequest

RULE = "Never push to main."
# Automatic compaction begins at 10,000 tokens.
WINDOW = 40_000
LINES = "a record of the feed was parsed\n"
TOOLS = [tool(name).definition for name in ("Read", "Grep", "Bash")]
ENABLED = {"type": "enabled", "budget_tokens": 1_024}
ADAPTIVE = {"type": "adaptive"}
SYSTEM = [text("You maintain a parser. " * 30), text("Be brief.")]

# How the newest message is sent, and how the list keeps it.
Spelled = tuple[list[Json], list[Json]]
Habit = Callable[[str], Spelled]


def message(*blocks: Json) -> Json:
    return {"role": "user", "content": list(blocks)}


def plain(said: str) -> Spelled:
    return [message(text(said))], [message(text(said))]


def document(words: str) -> Json:
    return {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": words}}


class Model:
    """Calls `parallel` tools in each of `rounds` rounds of a turn, then answers."""

    def __init__(self, row: "Variation") -> None:
        self._row = row
        # How many rounds this turn has had; the agent says so, whatever is left of the list.
        self.rounds = 0

    def say(self, request: ParsedRequest, *, rng: random.Random) -> ModelOutput:
        row, rounds = self._row, self.rounds
        thinks = request.get_object("thinking").get("type") in ("enabled", "adaptive")
        thought = [{"type": "thinking", "thinking": "Let me see. " * 20}]
        content = thought if thinks and (row.thinks_always or not rounds) else []
        names = [each.body["name"] for each in request.tools]
        if rounds >= row.rounds or not names:
            return ModelOutput((*content, text("It is fine. " * 20)), "end_turn")
        calls = [
            {
                "type": "tool_use",
                "id": new_id("toolu_", rng),
                "name": names[0],
                "input": {"file_path": f"{n}.py"},
            }
            for n in range(row.parallel)
        ]
        return ModelOutput((*content, *calls), "tool_use")


@dataclass(frozen=True)
class Variation:
    """What the agent does; a number of a turn counts from 0."""

    name: str
    turns: int = 6
    rounds: int = 2
    parallel: int = 1
    lines: int = 120
    model: str = HAIKU
    thinking: Json | None = None
    thinks_always: bool = True
    how: str = "create"
    habit: Habit = plain
    picture: bool = False
    # What is different about the request if a compaction is about to be due, and about those of a turn.
    when_due: Json | None = None
    changes: dict[int, Json] = field(default_factory=dict)
    restarts: tuple[int, ...] = ()
    restarts_in_loop: bool = False
    faults: dict[int, Any] = field(default_factory=dict)
    workers: int = 1
    on_disk: bool = True
    options: Json = field(default_factory=dict)
    # Whether each summary call reads the conversation from the cache.
    warm: bool = True
    # Whether all that is new fits as it is.
    fits: bool = True


class Agent:
    def __init__(self, row: Variation, folder: Path) -> None:
        self.row, self.folder = row, folder if row.on_disk else None
        self.model = Model(row)
        self.twin = TwinForTests(agent=self.model)
        self.events: list[Any] = []
        self.wire = Wire()
        self.numbers = 0
        self.messages: list[Json] = []
        self.open: list[Any] = []
        self.clients: list[Any] = []
        self.calls = 0
        for _ in range(row.workers):
            self.start()

    def start(self) -> None:
        made = everturn.middleware(
            config=None, folder=self.folder, listen=self.events.append, clock=self.twin.twin.clock.now,
            **{"window": WINDOW, **self.row.options},
        )  # fmt: skip
        client = self.twin.async_client if self.row.how == "async" else self.twin.client
        self.open.append(made)
        self.clients.append(client(middleware=[made, self.wire], max_retries=0))

    def restart(self) -> None:
        at = self.calls % len(self.open)
        self.open.pop(at).close()
        self.clients.pop(at)
        self.start()

    def run(self) -> "Agent":
        for turn in range(self.row.turns):
            if turn in self.row.restarts:
                self.restart()
            if turn in self.row.faults:
                self.twin.faults(self.row.faults[turn])
            self.turn(turn)
        for each in self.open:
            each.close()
        self.check()
        return self

    def turn(self, turn: int) -> None:
        self.numbers += 1
        said = f"Question <<{self.numbers}>>. {RULE if not turn else ''} " + "It matters much. " * 400
        sent, kept = self.row.habit(f"{said} <<{self.numbers}>>")
        for rounds in range(self.row.rounds + 1):
            self.model.rounds = rounds
            content = self.ask(turn, sent)
            self.messages += [*kept, {"role": "assistant", "content": content}]
            calls = [block for block in content if block["type"] == "tool_use"]
            if not calls:
                return
            if self.row.restarts_in_loop and rounds == 1:
                self.restart()
            sent = kept = [message(*(result(call["id"], self.found()) for call in calls))]

    def found(self) -> list[Json]:
        self.numbers += 1
        words = text(f"<<{self.numbers}>> {LINES * self.row.lines}<<{self.numbers}>>")
        return [words, image()] if self.row.picture else [words]

    def ask(self, turn: int, newest: list[Json]) -> list[Json]:
        row = self.row
        request: Json = {
            "model": row.model, "max_tokens": 2_500, "tools": TOOLS, "system": SYSTEM,
            **({"thinking": row.thinking} if row.thinking else {}), **row.changes.get(turn, {}),
        }  # fmt: skip
        if row.when_due and self.is_nearly_due():
            request |= row.when_due
        request = {name: value for name, value in request.items() if value is not None}
        client = self.clients[self.calls % len(self.clients)]
        self.calls += 1
        request["messages"] = [*self.messages, *newest]
        try:
            content = call(client, row.how, request)
        except (anthropic.InternalServerError, anthropic.RateLimitError, anthropic.APIConnectionError):
            # An agent of its own tries again.
            assert turn in row.faults
            content = call(client, row.how, request)
        own = next(body for body in reversed(self.wire.bodies) if not asks_for_summary(body))
        spelled = json.dumps(own["messages"])
        assert RULE in spelled
        for block in newest[-1]["content"] if row.fits else ():
            assert words_of(block) in spelled, "the newest message is not there word for word"
        return content

    def is_nearly_due(self) -> bool:
        known = [each for made in self.open for each in made.conversations]
        return bool(known) and max(each.tokens for each in known) > WINDOW // 4

    def check(self) -> None:
        injected = len(self.row.faults)
        refused = [entry["error"]["message"] for entry in self.twin.ledger if entry["status"] == 400]
        assert refused == []
        failed = [entry["status"] for entry in self.twin.ledger if entry["status"] >= 400]
        assert len(failed) <= 2 * injected
        assert [event for event in self.events if isinstance(event, PassedThrough)] == []
        assert self.heard("CompactionDone"), "nothing was compacted"
        assert self.heard("ForksRepeated") == []
        if self.row.warm:
            assert [event.why for event in self.heard("SummaryUncached")] == []
        self.twin.close()

    def heard(self, name: str) -> list[Any]:
        return [event for event in self.events if type(event).__name__ == name]

    @property
    def dollars(self) -> float:
        return sum(entry["dollars"] for entry in self.twin.ledger)


def call(client: Any, how: str, request: Json) -> list[Json]:
    if how == "async":
        reply = asyncio.run(client.messages.create(**request))
    elif how == "stream":
        with client.messages.stream(**request) as stream:
            reply = stream.get_final_message()
    else:
        reply = client.messages.create(**request)
    return reply.to_dict(mode="json")["content"]


def words_of(block: Json) -> str:
    """The text of a block as JSON spells it."""
    found = block.get("text") or (block["content"][0]["text"] if "content" in block else "")
    return json.dumps(found)[1:-1]


# ── habits ───────────────────────────────────────────────────────────────────────────────────────


def three_that_are_joined(said: str) -> Spelled:
    parts = [text("Context first."), text("Then this."), text(said)]
    return [message(part) for part in parts], [message(*parts)]


def one_that_is_split(said: str) -> Spelled:
    parts = [text("Context first."), text(said)]
    return [message(*parts)], [message(part) for part in parts]


def string_instead_of_blocks(said: str) -> Spelled:
    return [message(text(said))], [{"role": "user", "content": said}]


def reminder_in_front(said: str) -> Spelled:
    return [message(text("<reminder>Mind the time.</reminder>"), text(said))], [message(text(said))]


def reminder_inside(said: str) -> Spelled:
    return [message(text(f"{said}\n\n<reminder>Mind the time.</reminder>"))], [message(text(said))]


def reminder_apart(said: str) -> Spelled:
    return [message(text("<reminder>Mind the time.</reminder>")), message(text(said))], [message(text(said))]


def with_picture(said: str) -> Spelled:
    both = [message(image(), text(said))]
    return both, both


def with_document(said: str) -> Spelled:
    both = [message(document("The manual says: " + "as it is written. " * 300), text(said))]
    return both, both


def in_two_messages(said: str) -> Spelled:
    both = [message(text("One thing before.")), message(text(said))]
    return both, both


OPUS, BOUND = "claude-opus-5", "claude-opus-5-5"
OTHER_TOOLS = [tool(name).definition for name in ("Search", "Read")]
OTHER_SYSTEM = [text("You test a parser. " * 30)]

VARIATIONS = (
    # Tools and system blocks change in the request in which compaction is due.
    Variation("other tools and another system, streaming", how="stream", warm=False,
              when_due={"tools": OTHER_TOOLS, "system": OTHER_SYSTEM}),
    Variation("no tools, with thinking", rounds=0, turns=12, thinking=ENABLED, warm=False,
              when_due={"tools": None}),
    Variation("fewer tools with bound thinking, async", model=BOUND, how="async", warm=False,
              thinking=ADAPTIVE, when_due={"tools": TOOLS[:1]}),
    Variation("a system of words instead of blocks", warm=False, when_due={"system": "You test a parser."}),
    # Restarts before a compaction.
    Variation("restarts inside of tool loops", restarts_in_loop=True, rounds=3),
    Variation("a restart before each turn, with pictures", restarts=tuple(range(1, 6)), habit=with_picture),
    Variation("a restart with bound thinking", model=BOUND, thinking=ADAPTIVE, restarts=(2, 4)),
    # The newest message.
    Variation("a document and a question", habit=with_document),
    Variation("two messages that wait for an answer", habit=in_two_messages, how="stream"),
    Variation("pictures in parallel results", picture=True, parallel=3, turns=7),
    # Tool loops with thinking.
    Variation("parallel calls, thinking in the first reply only", thinking=ENABLED, thinks_always=False,
              parallel=2, rounds=6, turns=3, warm=False),
    Variation("thinking in each reply of a loop", thinking=ENABLED, rounds=6, turns=3, warm=False),
    Variation("adaptive thinking in long loops", model=OPUS, thinking=ADAPTIVE, rounds=8, turns=3),
    Variation("bound thinking in the first reply only, streaming", model=BOUND, thinking=ADAPTIVE,
              thinks_always=False, rounds=6, turns=3, how="stream"),
    # Other spellings of the same list.
    Variation("three messages that are joined later", habit=three_that_are_joined),
    Variation("one message that is split later, after restarts", habit=one_that_is_split, restarts=(2, 4)),
    Variation("a string instead of blocks", habit=string_instead_of_blocks, thinking=ENABLED),
    # Reminders.
    Variation("a reminder in front", habit=reminder_in_front),
    Variation("a reminder inside, with parallel calls", habit=reminder_inside, parallel=2),
    Variation("a reminder as a message of its own, streaming", habit=reminder_apart, how="stream"),
    Variation("a reminder inside, with bound thinking", habit=reminder_inside, model=BOUND,
              thinking=ADAPTIVE),
    # Failures around a summary.
    Variation("overloaded twice, async", how="async", faults=dict.fromkeys((2, 3, 4), "overloaded")),
    # Without a folder.
    Variation("nothing on disk, with documents", on_disk=False, habit=with_document),
    # Several workers.
    Variation("three workers take turns in tool loops", workers=3, warm=False),
    Variation("workers with bound thinking, and another system prompt for one turn", workers=2, model=BOUND,
              thinking=ADAPTIVE, rounds=3, changes={3: {"system": OTHER_SYSTEM}}, warm=False),
    Variation("workers with bound thinking, other tools in three turns, reminders", workers=4, model=BOUND,
              thinking=ADAPTIVE, changes={turn: {"tools": OTHER_TOOLS} for turn in (1, 2, 3)},
              habit=reminder_inside, warm=False),
    Variation("two workers, one of which restarts", workers=2, restarts=(2, 4), warm=False),
    # Thinking and models that change.
    Variation("thinking is switched on and off", warm=False,
              changes={n: {"thinking": ENABLED if n % 2 else None} for n in range(9)}),
    Variation("another model in every other turn", warm=False,
              changes={n: {"model": (HAIKU, OPUS, BOUND)[n % 3]} for n in range(9)}),
    Variation("from bound thinking to enabled thinking, with pictures", warm=False, habit=with_picture,
              changes={n: {"model": BOUND, "thinking": ADAPTIVE} if n < 3 else {"thinking": ENABLED}
                       for n in range(9)}),
    # A very small window.
    Variation("a window of 30,000 tokens", options={"window": 30_000}, lines=20, warm=False),
    Variation("without a model for the summary", options={"compact": {"strategies": ["extractive"]}},
              thinking=ENABLED, parallel=2),
)  # fmt: skip


@pytest.mark.spec("CP-37", "CP-38", "GW-11")
@pytest.mark.moves_cache_prefix(reason="several rows change tools, system, thinking or model in mid-session")
@pytest.mark.parametrize("row", VARIATIONS, ids=lambda row: row.name)
def test_an_agent_goes_on_through_compactions(row, tmp_path):
    Agent(row, tmp_path).run()


@pytest.mark.spec("GW-11")
@pytest.mark.parametrize(
    ("habit", "restarts"),
    [
        (reminder_in_front, ()),
        (reminder_inside, (2, 4)),
        (reminder_apart, (2, 4)),
        (three_that_are_joined, ()),
    ],
)
def test_what_is_gone_after_a_tool_loop_makes_no_other_conversation(tmp_path, habit, restarts):
    """A reminder stays in its message while the loop runs; the next turn comes without it."""
    row = Variation("", rounds=3, turns=6, lines=40, habit=habit, restarts=restarts)
    agent = Agent(row, tmp_path / "odd").run()
    plain_agent = Agent(replace(row, habit=plain, restarts=()), tmp_path / "plain").run()
    assert len({event.moment.session for event in agent.heard("CompactionDone")}) == 1
    assert len(agent.heard("CompactionDone")) == len(plain_agent.heard("CompactionDone"))
    assert agent.dollars < 1.05 * plain_agent.dollars


@pytest.mark.spec("PC-12", "TL-1")
def test_an_uncached_summary_inside_of_a_loop_says_that_the_model_forgets_its_thinking(tmp_path):
    row = Variation("", thinking=ENABLED, rounds=6, turns=3, warm=False)
    reasons = {event.why for event in Agent(row, tmp_path).run().heard("SummaryUncached")}
    assert reasons == {f"{HAIKU} keeps the thinking of a tool loop only until the next question"}


# ── other adapters ───────────────────────────────────────────────────────────────────────────────

THINKS = (("thinking", 0.0),)
OTHER_TOOLS_AND_SYSTEM = (("tools", 0.9), ("system", 0.5))


def steps(*, spelling: str, **at: dict[int, Any]) -> list[Step]:
    """Seven turns of one list, each with its tool loop."""
    return [
        Step(
            0.0,
            "go on",
            0.0,
            spelling=spelling,
            **{name: where[n] for name, where in at.items() if n in where},
        )
        for n in range(7)
    ]


PLANS = {
    "thinking, and a reminder that is gone after the loop": steps(
        spelling="reminder behind", changes={0: THINKS}
    ),
    "restarts, and tools and system that change with them": steps(
        spelling="joined later",
        restarts={2: True, 4: True, 5: True},
        changes={0: THINKS, 4: OTHER_TOOLS_AND_SYSTEM},
    ),
    "an overloaded provider, and another model": steps(
        spelling="split later", fault={2: "overloaded", 3: "server_error"}, changes={4: (("model", 0.5),)}
    ),
}


@pytest.mark.spec("CP-37", "CP-38", "GW-11")
@pytest.mark.moves_cache_prefix(reason="tools, system and model change in mid-session")
@pytest.mark.parametrize("surface", ["langchain", "pydantic-ai"])
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_an_agent_of_a_framework_goes_on_through_compactions(surface, plan):
    with quiet():
        done = run(surface, WINDOW, plan, seed=3)
    assert done.counts["summaries"] > 0


# ── bound thinking ───────────────────────────────────────────────────────────────────────────────


def rewind_then_compact(desk, session, **options):
    typed = [each for each in session.conversation.log.view.records if each.kind == "user" and each.blocks]
    session.rewind(next(each.uuid for each in reversed(typed) if not each.blocks[0].is_result))
    session.compact()
    return session


def partly_then_reopened_with_another_system(desk, session, **options):
    records = [record.uuid for record in session.conversation.log.view.records]
    session.compact(from_=records[len(records) // 2])
    session.close()
    session = desk.open(**options, system="You test a parser. " * 200)
    desk.twin.script("Well.")
    session.send("More.")
    session.compact()
    return session


@pytest.mark.spec("CP-38")
@pytest.mark.moves_cache_prefix(reason="the system prompt changes, and rewinding goes back")
@pytest.mark.parametrize("act", [rewind_then_compact, partly_then_reopened_with_another_system])
def test_bound_thinking_is_never_sent_behind_another_prefix(desk, act):
    read = tool("Read", lambda given: "line of it\n" * 60)
    options: Json = {"model": BOUND, "tools": [read]}
    session = desk.open(**options)
    for n in range(5):
        thought = {"type": "thinking", "thinking": f"Thought {n}."}
        desk.twin.script({"content": [thought, call_of(n)]}, {"content": [thought, text(f"Read {n}.")]})
        session.send(f"Read file {n}. " + "log line " * 300)
    drop_replies(desk.twin)
    session = act(desk, session, **options)
    desk.twin.script("Well.")
    session.send("Go on.")
    session.close()
    assert {entry["status"] for entry in desk.twin.ledger} == {200}
    assert "fork" in {event.way for event in desk.heard("CompactionDone")}


# ── windows that are too small ───────────────────────────────────────────────────────────────────


def long_list(tokens: int) -> list[Json]:
    """A conversation that no 200K window holds, of few long messages."""
    words = "The measured value was as expected, and nobody objected to it. "
    said: list[Json] = []
    for n in range(5):
        question = f"Part {n}. {RULE if not n else ''} " + words * (tokens // 5 // 14)
        said += [message(text(question)), {"role": "assistant", "content": [text(f"Read part {n}.")]}]
    return said


@pytest.mark.spec("CP-9", "CP-26")
@pytest.mark.moves_cache_prefix(reason="another model has a cache of its own")
@pytest.mark.parametrize(("how", "thinking"), [("create", ENABLED), ("stream", None)])
def test_a_list_that_the_next_model_cannot_take_is_compacted_without_a_refusal(tmp_path, how, thinking):
    row = Variation("", model=OPUS, rounds=0, how=how, options={"window": None}, warm=False)
    agent = Agent(row, tmp_path)
    agent.messages = long_list(260_000)
    agent.turn(0)
    assert agent.heard("CompactionDone") == []
    agent.row = replace(row, model=HAIKU, thinking=thinking)
    agent.turn(1)
    agent.check()
    (done,) = agent.heard("CompactionDone")
    asked = next(body for body in agent.wire.bodies if asks_for_summary(body))
    # What it could not read it has as an extract, with the user's words; the receipt counts it.
    assert "extracted from the whole conversation without a model" in json.dumps(asked)
    assert "<<1>>" in json.dumps(asked)
    assert done.way == "direct"
    sent = json.dumps(agent.wire.bodies[-1]["messages"])
    assert re.search(r"\d+ messages? too many for the summary call, which read an extract instead", sent)


@pytest.mark.spec("CP-9")
@pytest.mark.moves_cache_prefix(reason="another model has a cache of its own")
def test_a_session_goes_on_in_a_tool_loop_with_a_model_that_cannot_take_it(desk):
    words = "line of code and nothing else of interest\n" * 5_200
    read = tool("Read", lambda given: words)
    desk.twin.script(*({"content": [call_of(n)]} for n in range(4)), "Read them all.")
    with desk.open(model=OPUS, tools=[read], micro={"enabled": False}) as session:
        session.send(f"Read all files. {RULE}", rounds=3)
        assert session.context().size.tokens > 200_000
    desk.twin.twin.speaker.clear()
    desk.twin.script({"content": SUMMARY, "when": "<summary>"}, "Read them all.")
    with desk.open(model=HAIKU, tools=[read], micro={"enabled": False}) as session:
        reply = session.send("Go on.")
    assert reply.text == "Read them all."
    assert {entry["status"] for entry in desk.twin.ledger} == {200}
    assert RULE in words_in(desk.bodies[-1])


def call_of(n: int) -> Json:
    return {"type": "tool_use", "id": f"toolu_{n}", "name": "Read", "input": {"file_path": f"{n}.py"}}


def words_in(body: Json) -> str:
    return json.dumps(body["messages"])


@pytest.mark.spec("TOK-15")
def test_with_automatic_compaction_switched_off_the_ways_out_are_named(desk):
    words = "line of code and nothing else of interest\n" * 5_200
    desk.twin.script(*(f"Read {n}." for n in range(4)))
    with desk.open(model=OPUS) as session:
        for n in range(4):
            session.send(f"Part {n}: {words}")
    options: Json = {"model": HAIKU, "thresholds": {"auto_compaction": False}}
    with desk.open(**options) as session, pytest.raises(everturn.EverturnError) as raised:
        session.send("Go on.")
    told = str(raised.value)
    assert all(way in told for way in ("compact", "rewind", "window")), told
    assert {entry["status"] for entry in desk.twin.ledger} == {200}


@pytest.mark.spec("CP-37")
@pytest.mark.parametrize("how", ["create", "stream"])
def test_of_parallel_results_that_cannot_fit_each_has_its_head_and_its_tail(tmp_path, how):
    options = {"micro": {"enabled": False}}
    row = Variation("", rounds=1, parallel=3, lines=1_300, how=how, options=options, fits=False)
    agent = Agent(row, tmp_path)
    agent.turn(0)
    assert {entry["status"] for entry in agent.twin.ledger} == {200}
    sent = json.dumps(agent.wire.bodies[-1]["messages"])
    assert [sent.count(f"<<{n}>>") for n in (2, 3, 4)] == [2, 2, 2]
