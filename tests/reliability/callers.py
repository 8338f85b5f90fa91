"""Callers by chance: programs that keep their own list of messages, and everturn beside them.

A program has a few lists that begin alike. It goes on with one of them, asks again, regenerates, edits, goes
back, branches off, leaves out its oldest turns, and changes tools, system prompt, model and thinking on the
way. These cost what they cost. Other habits should cost nothing: reminders that are left out later, messages
that are joined or split, a process that ends and starts again, a provider that fails.

Bolder programs run beside it. The API pauses their replies, and takes them back to go on; they keep all their
thinking, begin replies themselves, prune old results, and tell everturn to compact and to undo. What they ask
for has its price, so only their requests are judged.

Everything that is said has a number that is used once. In every request that leaves, no number is from
another list, what was said last is there word for word, and the API takes it. Then the same program runs once
more without the habits that should cost nothing, and the bills are compared.
"""

import json
import random
import re
from collections import Counter
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from adapters.framework_bench import Wire, asks_for_summary
from reliability.caller_model import Model
from reliability.caller_surfaces import NAMES, SURFACES, Mode, Place, Sdk, Spelling, Surface, failures
from reliability.scenes import quiet
from reliability.scratch import in_memory

from everturn.decide.events import PassedThrough, SummaryUncached
from everturn.decide.options import Options
from everturn.errors import UsageError
from everturn.twin.testing import TwinForTests

# What is changed, and which of its values is taken.
Changes = tuple[tuple[str, float], ...]

STEPS = 10
# Every so many programs do nothing but go on, for so many turns: there a habit that costs something shows.
STEADY = 0.4
STEADY_STEPS = 14
# Windows that a few messages fill: compactions happen all the time.
WINDOWS = (40_000, 60_000)
PAD = "and this is why it matters so much. " * 300
RESULT = "a record of the feed was parsed\n"
NUMBER = re.compile(r"<<[a-z]*\d+>>")
FIRST = "Look at the parser. "
SYSTEMS = ("You maintain a parser.", "You maintain a parser. Be brief.", "You test a parser. " * 300)
MODELS = ("claude-haiku-4-5", "claude-opus-5-5", "claude-opus-4-6")
TOOLS = ("read_file", "search", "list_files", "fetch")
HABITS = ("go on", "go on", "go on", "go on", "again", "regenerate", "edit", "rewind", "branch", "trim")
CHANGES = ("tools", "tools", "system", "model", "thinking")
# The habits of a program that asks for more, most of them through the SDK.
BOLD_SURFACES = ("sdk", "sdk", "sdk", "sdk", "langchain", "pydantic-ai")
BOLD_HABITS = (*("go on",) * 6, "edit", "prune", "prune", "regenerate", "branch")
FREE_FAULTS = ("overloaded", "server_error", "timeout")
# A broken answer is paid for, and a compaction after "too long" too.
FAULTS = (*FREE_FAULTS, "cut_stream", "prompt_too_long")
PREFILL = "Sure:"
REMINDER = "<reminder>{} Keep it short, and never push to main.</reminder>"
# A program that repeats a call this often has given up.
MOST_TRIES = 6
# What the habits may add to the bill, beside one compaction that comes earlier or later.
MOST_MORE = 0.15


class Misheard(AssertionError):
    """A request that is not what its caller asked for, or that the API refuses."""


class Overcharged(AssertionError):
    """A habit that should cost nothing has a price."""


class Step(NamedTuple):
    """What a program does next. Spelling, restarts and most faults should cost nothing."""

    list_at: float
    habit: str
    at: float
    changes: Changes = ()
    spelling: str = "plain"
    fault: str = ""
    restarts: bool = False
    # What its adapter is told before: "compact", "undo".
    order: str = ""

    @property
    def plain(self) -> "Step":
        fault = "" if self.fault in FREE_FAULTS else self.fault
        return self._replace(spelling="plain", fault=fault, restarts=False)


def planned(rng: random.Random) -> list[Step]:
    return steady(rng) if rng.random() < STEADY else changing(rng)


def steady(rng: random.Random) -> list[Step]:
    """One list that grows, under one habit that should cost nothing."""
    spelling, restarts = rng.choice(tuple(SPELLINGS)), rng.choice((0.0, 0.3))
    begins = beginning(rng)
    return [
        Step(
            list_at=0.0,
            habit="go on",
            at=0.0,
            changes=() if number else begins,
            spelling=spelling,
            fault=rng.choice(FREE_FAULTS) if rng.random() < 0.1 else "",
            restarts=rng.random() < restarts,
        )
        for number in range(STEADY_STEPS)
    ]


def changing(rng: random.Random) -> list[Step]:
    """Lists that are edited, branched and trimmed, under other settings each time."""
    begins = beginning(rng)
    return [
        Step(
            list_at=rng.random(),
            habit=rng.choice(HABITS),
            at=rng.random(),
            changes=tuple((change, rng.random()) for change in CHANGES if rng.random() < 0.08)
            if number
            else begins,
            spelling=rng.choice(tuple(SPELLINGS)) if rng.random() < 0.5 else "plain",
            fault=rng.choice(FAULTS) if rng.random() < 0.15 else "",
            restarts=rng.random() < 0.2,
        )
        for number in range(STEPS)
    ]


# What an undo brings back was written with other tools than the next request has.
DETOUR = [
    Step(0.0, "go on", 0.0, order="compact"),
    Step(0.0, "go on", 0.0, changes=(("tools", 0.9),)),
    Step(0.0, "go on", 0.0, order="undo"),
]


class Bold(NamedTuple):
    """What a program that asks for more begins with, changes on the way, and tells everturn."""

    begins: Changes
    changes: tuple[str, ...] = ("searches", "keeps thinking")
    orders: tuple[str, ...] = ("", "compact", "undo")
    # After an undo, what comes back must have room in them.
    windows: tuple[int, ...] = (40_000, 60_000, 100_000)

    def planned(self, rng: random.Random) -> list[Step]:
        """Mostly one list. The API pauses its replies, and its program prunes it."""
        steps = self._drawn(rng)
        if "undo" in self.orders:
            at = rng.randrange(2, STEPS - len(DETOUR))
            steps[at : at + len(DETOUR)] = DETOUR
        return steps

    def _drawn(self, rng: random.Random) -> list[Step]:
        often = {"searches": 0.8, "keeps thinking": 0.3}
        drawn = ((change, rng.random()) for change in self.changes if rng.random() < often[change])
        first = (*self.begins, *drawn)
        return [
            Step(
                list_at=0.0 if rng.random() < 0.9 else rng.random(),
                habit=rng.choice(BOLD_HABITS),
                at=rng.random(),
                changes=tuple(
                    (change, rng.random())
                    for change in (*CHANGES, *self.changes)
                    if rng.random() < (0.3 if change == "tools" else 0.05)
                )
                if number
                else first,
                spelling=rng.choice(tuple(SPELLINGS)) if rng.random() < 0.2 else "plain",
                fault=rng.choice(FAULTS) if rng.random() < 0.05 else "",
                restarts=rng.random() < 0.1,
                order=rng.choice(self.orders),
            )
            for number in range(STEPS)
        ]


# By their models: one binds what it thinks to all that stands before it, one is shown the thinking of its
# last turn only, and one has its replies begun by the program.
BOLD = {
    "binding": Bold((("model", 0.5), ("thinking", 0.0))),
    "last turn": Bold((("model", 0.0), ("thinking", 0.0))),
    "prefill": Bold((("prefill", 0.0),), changes=(), orders=("",)),
}


def beginning(rng: random.Random) -> Changes:
    """What a program starts with. Most think: what the API refuses, it mostly refuses about thinking."""
    often = {"thinking": 0.75, "model": 0.6}
    return tuple((change, rng.random()) for change in CHANGES if rng.random() < often.get(change, 0.4))


def spelled_plainly(said: str, reminder: str) -> tuple[Spelling, Spelling]:
    return ((said,),), ((said,),)


def reminded_behind(said: str, reminder: str) -> tuple[Spelling, Spelling]:
    return ((said, reminder),), ((said,),)


def reminded_in_front(said: str, reminder: str) -> tuple[Spelling, Spelling]:
    return ((reminder, said),), ((said,),)


def reminded_inside(said: str, reminder: str) -> tuple[Spelling, Spelling]:
    return ((f"{said}\n\n{reminder}",),), ((said,),)


def reminded_apart(said: str, reminder: str) -> tuple[Spelling, Spelling]:
    return ((said,), (reminder,)), ((said,),)


def joined_later(said: str, reminder: str) -> tuple[Spelling, Spelling]:
    return ((said,), ("What do you think?",)), ((said, "What do you think?"),)


def split_later(said: str, reminder: str) -> tuple[Spelling, Spelling]:
    return ((said, "What do you think?"),), ((said,), ("What do you think?",))


# How a turn is sent, and how it is kept.
SPELLINGS = {
    "plain": spelled_plainly,
    "reminder behind": reminded_behind,
    "reminder in front": reminded_in_front,
    "reminder inside": reminded_inside,
    "reminder apart": reminded_apart,
    "joined later": joined_later,
    "split later": split_later,
}


class Watch(Wire):
    """Looks at every body on its way."""

    def __init__(self, caller: "Caller") -> None:
        super().__init__()
        self._caller = caller

    def _passed(self, request: Any) -> Any:
        self._caller.look(json.loads(json.dumps(request.json)))
        return request


class Turn(NamedTuple):
    """One list in one of its states: what the program keeps, and what was said last in it."""

    history: list[Any]
    said: str


class Caller:
    """One program, what leaves it, and what it holds."""

    def __init__(
        self,
        surface: str,
        folder: Path,
        options: dict[str, Any] | None = None,
        seed: int = 0,
        pad: str = PAD,
    ) -> None:
        # What every message of the user has behind its number.
        self._pad = pad
        self.counts: Counter[str] = Counter({surface: 1})
        self.model = Model(seed)
        self.twin = TwinForTests(agent=self.model)
        self.events: list[Any] = []
        ids = count(1)
        place = Place(
            self.twin,
            Watch(self),
            folder,
            self.events.append,
            self.answer,
            lambda: f"id-{next(ids):06d}",
            options or {"options": Options(window=WINDOWS[0])},
        )
        self.surface: Surface = SURFACES[surface](place)
        # Every state that a list of messages had, newest last.
        self.lists: list[list[Turn]] = [[Turn([], "")], [Turn([], "")]]
        self.mode = Mode(MODELS[0], SYSTEMS[0], TOOLS[:2], thinks=False)
        self.numbers: Counter[str] = Counter()
        self.allowed: set[str] = set()
        # What nobody has answered yet: it must be in the next request word for word.
        self.newest: list[str] = []
        # Numbers of reminders, and of the message that each was sent with.
        self.reminders: dict[str, str] = {}
        self.injected: Counter[str] = Counter()
        # What was said when the API called a request too long.
        self.too_long: set[str] = set()
        self.is_too_long = False
        # Which requests asked for a summary, by their place in the twin's ledger.
        self.summaries: set[int] = set()

    # ── steps ────────────────────────────────────────────────────────────────────────────────────

    def act(self, step: Step) -> None:
        states = _choose(self.lists, step.list_at)
        before, said = states[-1].history, f"{FIRST}{self._next()} {self._pad}"
        turns = [at for at, each in enumerate(before) if self.surface.is_turn(each)]
        match step.habit:
            case "again" if len(states) > 1:
                before = states[-2].history
            case "regenerate" if len(states) > 1:
                before, said = states[-2].history, states[-1].said
            case "edit" if turns:
                before = self._edited(before, _choose(turns, step.at))
            case "rewind":
                before = _choose(states, step.at).history
            case "branch":
                states = [states[-1]]
                self.lists.append(states)
            case "prune":
                before = self.surface.prune(before)
            case "trim":
                # Not within a turn: half of one is what is left of it without a reminder.
                starts = [at for at in turns if at - 1 not in turns]
                before = before[_choose(starts or [0], step.at) :]
            case _:
                pass
        for change, at in step.changes:
            self.mode = changed(self.mode, change, at)
        if step.order:
            self._tell(step.order)
        if step.restarts:
            self.surface.restart()
        self.counts.update([step.habit, step.spelling, *(change for change, _ in step.changes)])
        self.counts["restarts"] += step.restarts
        states.append(Turn(self.say(before, said, step), said))

    def _tell(self, order: str) -> None:
        adapter = self.surface.adapter
        try:
            adapter.compact() if order == "compact" else adapter.undo()
        except UsageError:
            # A process that has only just started has no conversation in memory.
            return
        self.counts[order] += 1

    def _edited(self, history: list[Any], at: int) -> list[Any]:
        words = f"{FIRST}{self._next()} {self._pad}"
        return [*history[:at], *self.surface.spell(((words,),)), *history[at + 1 :]]

    def _next(self, kind: str = "") -> str:
        self.numbers[kind] += 1
        return f"<<{kind}{self.numbers[kind]}>>"

    def answer(self, asked: str) -> str:
        """What a tool says."""
        number = self._next("result")
        if self.model.has_answered:
            self.newest, self.model.has_answered = [], False
        self.model.results += 1
        self.allowed.add(number)
        self.newest.append(f"{number} {RESULT * self.model.lines()}{number}")
        return self.newest[-1]

    def say(self, before: list[Any], said: str, step: Step) -> list[Any]:
        """The history after this was said and answered."""
        reminder = self._next("reminder") if "reminder" in step.spelling else ""
        sent, kept = SPELLINGS[step.spelling](said, REMINDER.format(reminder))
        (own,) = NUMBER.findall(said)
        if step.fault == "prompt_too_long":
            self.too_long.add(own)
        self.is_too_long = own in self.too_long
        if reminder:
            self.reminders[reminder] = own
        if step.fault:
            self.injected[step.fault] += 1
            self.counts["faults"] += 1
            self.twin.faults(step.fault)
        for _ in range(MOST_TRIES):
            self.allowed = {own, *NUMBER.findall(repr(before))}
            # What was pruned is still of this list: a compaction that came before may have kept it.
            self.allowed |= {f"<<{name}>>" for name in NAMES.findall(repr(before))}
            self.allowed |= {each for each, host in self.reminders.items() if host in self.allowed}
            self.model.question, self.model.results, self.model.has_answered = own, 0, False
            self.model.is_paused = self.model.has_spoken = False
            self.newest = [text for message in sent for text in message]
            try:
                after = self.surface.ask(before, sent, self.mode)
            except failures() as problem:
                if not step.fault:
                    raise Misheard(f"a call has failed: {problem}") from problem
                continue
            return [*before, *self.surface.spell(kept), *self._answer(after)]
        raise Misheard(f"{MOST_TRIES} tries after {step.fault}, and no answer")

    def _answer(self, after: list[Any]) -> list[Any]:
        """What came behind the last turn of the user: a framework may have joined messages before it."""
        last = max(at for at, each in enumerate(after) if self.surface.is_turn(each))
        return after[last + 1 :]

    # ── checks ───────────────────────────────────────────────────────────────────────────────────

    def look(self, body: Any) -> None:
        """At a request that leaves."""
        spelled = json.dumps(body)
        self.counts["requests"] += 1
        found = set(NUMBER.findall(spelled))
        if foreign := found - self.allowed:
            raise Misheard(f"a request has words that are not of its list: {', '.join(sorted(foreign))}")
        if asks_for_summary(body):
            self.summaries.add(len(self.twin.ledger))
            self.counts["summaries"] += 1
            return
        for text in self.newest:
            if json.dumps(self._least_of(text))[1:-1] not in spelled:
                raise Misheard(f"a request has not all of what was said last, {NUMBER.findall(text)}")
        self._look_at_end(body["messages"][-1])
        if not self.is_too_long:
            self.newest = []

    def _look_at_end(self, last: Any) -> None:
        """What the model goes on with is the last message, also where a compaction has come in between; not
        where the API has called the newest message too long, which is then summarized with it."""
        if self.is_too_long:
            return
        if self.model.is_paused and last["role"] != "assistant":
            raise Misheard("a request does not go on with the reply that the API has paused")
        is_begun = isinstance(self.surface, Sdk) and self.mode.takes_prefill and not self.model.has_spoken
        if is_begun and not (last["role"] == "assistant" and PREFILL in json.dumps(last["content"])):
            raise Misheard("a request does not end with the reply that its caller has begun")

    def _least_of(self, text: str) -> str:
        """What must be there of a text. One that the API has called too long may be cut in its middle."""
        return text if not self.is_too_long else next(iter(NUMBER.findall(text)), "")

    def check(self) -> None:
        for place, entry in enumerate(self.twin.ledger):
            if entry["status"] == 400 and not (self._is_injected(entry) or self._is_shortened(place, entry)):
                raise Misheard(f"the API refused a request: {entry['error']['message']}")
        passed = [event for event in self.events if isinstance(event, PassedThrough)]
        if passed:
            raise Misheard(f"{passed[0].why}: {passed[0].detail}")
        if unsupported := dict(self.surface.unsupported):
            raise Misheard(f"requests were sent unchanged: {unsupported}")

    def _is_injected(self, entry: Any) -> bool:
        return bool(self.injected["prompt_too_long"]) and "too long" in entry["error"]["message"]

    def _is_shortened(self, place: int, entry: Any) -> bool:
        """A request for a summary of what nobody has counted yet may be too long: it is free, and the next
        one is shorter by what the refusal says (CP-9)."""
        return place in self.summaries and "too long" in entry["error"]["message"]

    @property
    def forgotten(self) -> int:
        """Summaries that read nothing because an earlier process had sent something else before them."""
        lost = (event for event in self.events if isinstance(event, SummaryUncached))
        return sum(event.why.startswith("since the restart") for event in lost)

    @property
    def prices(self) -> list[float]:
        return [entry["dollars"] for entry in self.twin.ledger]

    @property
    def dollars(self) -> float:
        return sum(self.prices)


def changed(mode: Mode, what: str, at: float) -> Mode:
    match what:
        case "tools":
            # More or fewer, and in another order.
            number = 1 + int(at * len(TOOLS))
            start = int(at * 97) % len(TOOLS)
            return mode._replace(tools=(*TOOLS[start:], *TOOLS[:start])[:number])
        case "system":
            return mode._replace(system=_choose(SYSTEMS, at))
        case "model":
            return mode._replace(model=_choose(MODELS, at))
        case "searches":
            return mode._replace(searches=not mode.searches)
        case "keeps thinking":
            return mode._replace(keeps_thinking=not mode.keeps_thinking)
        case "prefill":
            return mode._replace(prefill="" if mode.prefill else PREFILL)
        case _:
            return mode._replace(thinks=not mode.thinks)


def _choose(values: Any, at: float) -> Any:
    return values[int(at * len(values))]


def called(seed: int) -> Counter[str]:
    rng = random.Random(f"caller {seed}")
    surface, window, plan = rng.choice(tuple(SURFACES)), rng.choice(WINDOWS), planned(rng)
    with quiet():
        odd = run(surface, window, plan, seed)
        plain = run(surface, window, [step.plain for step in plan], seed)
        compare_bills(odd, plain)
        return sum((run_bold(seed, part).counts for part in BOLD), odd.counts)


def run_bold(seed: int, part: str) -> Caller:
    """One more program beside the first one, with the policy that the adapter has by itself. Its habits have
    a price, so nobody compares its bill. Its chance is its own: the first program stays as it was."""
    rng = random.Random(f"bold caller {seed} {part}")
    program = BOLD[part]
    window = {"window": rng.choice(program.windows)}
    return run_with(window, rng.choice(BOLD_SURFACES), program.planned(rng), seed)


def compare_bills(odd: Caller, plain: Caller) -> None:
    """One compaction may come a turn earlier in one of them: a summary, and what it replaces is written. And
    a restart forgets the tools that the last process had sent: with others, a summary can read nothing."""
    more, compaction = odd.dollars - plain.dollars, 2 * max(*odd.prices, *plain.prices)
    if more > MOST_MORE * plain.dollars + (1 + odd.forgotten) * compaction:
        raise Overcharged(f"with its habits ${odd.dollars:.4f}, without them ${plain.dollars:.4f}")
    odd.counts["micro-dollars"] = round(odd.dollars * 1e6)
    odd.counts["micro-dollars without habits"] = round(plain.dollars * 1e6)


def run(surface: str, window: int, plan: list[Step], seed: int, pad: str = PAD) -> Caller:
    return run_with({"options": Options(window=window)}, surface, plan, seed, pad)


def run_with(options: dict[str, Any], surface: str, plan: list[Step], seed: int, pad: str = PAD) -> Caller:
    with TemporaryDirectory(prefix="everturn-callers-", dir=in_memory()) as folder:
        caller = Caller(surface, Path(folder), options, seed, pad)
        try:
            for step in plan:
                caller.act(step)
            caller.check()
            caller.counts["pauses"] = caller.model.pauses
        finally:
            caller.surface.restart()
    return caller
