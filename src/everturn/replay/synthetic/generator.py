"""Sessions that never happened, in the format of Claude Code, from a seed: the story from top to bottom.

`tokens` is the amount of conversation: the estimated size of everything on the main chain that goes to
the API (prompts, replies, results, summaries; not signatures, not display copies, not agents, not the
fixed overhead of system prompt and tools). In a session without boundaries, microcompactions and forks the
context of the next call would be exactly this plus `MAIN_OVERHEAD`.

Everything is a function of the arguments: equal arguments give equal bytes, on every machine.

    story.py          what happens when
    episodes.py       what happens between two prompts
    words.py          what is said
    scribe.py         who writes it down         lines.py, how a line is spelled; meter.py, what usage says
    world/tools.py    what the tools answer
    world/project.py  the files, how they change code.py and pictures.py, what is in them
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Literal

from everturn.errors import UsageError
from everturn.replay.synthetic import episodes, phrases
from everturn.replay.synthetic.episodes import Episode, EpisodeContext, PromptContent
from everturn.replay.synthetic.transcript_writer import SyntheticThread, TranscriptWriter
from everturn.replay.synthetic.usage_model import MAIN_OVERHEAD, UsageModel
from everturn.replay.synthetic.workspace.project import Project
from everturn.replay.synthetic.workspace.tools import SyntheticReply

START = datetime(2026, 11, 1, 9, tzinfo=UTC)
MIN_TOKENS = 5_000
HALF_A_MOVE = 200  # tokens; stopping so much early, a session ends as often below its size as above
MIN_EVENT_TOKENS = 600  # tokens; the shortest summary and the shortest errand of an agent need about as much
LIFETIME_MS = {"5m": 5 * 60_000, "1h": 60 * 60_000}
AUTOMATIC_FROM = 155_000  # the smallest context at which recorded sessions were compacted by themselves
IDLE_MINUTES = (8, 25, 70, 190)

SyntheticEvent = Literal[
    "boundary", "microcompaction", "sidechain", "image", "idle_gap", "fork", "model_switch"
]
INLINE: frozenset[SyntheticEvent] = frozenset({"boundary", "microcompaction"})
"""Events that come in the middle of an episode; all others wait for its end, and hasten it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionShape:
    """How often each kind of thing happens in a session.

    Counts are kept exactly, with two exceptions: what no longer fits into a small session is left out, and
    so is a microcompaction that would find nothing to clear.

    An image is one in a prompt and one in a tool result. `display_copies` are the `toolUseResult` fields:
    whole as Claude Code writes them (they double the file), or short.
    """

    boundaries: int = 0
    microcompactions: int = 0
    sidechains: int = 1
    images: int = 1
    idle_gaps: int = 1
    forks: int = 0
    model_switches: int = 0
    cache_lifetime: Literal["5m", "1h"] = "5m"
    display_copies: Literal["whole", "short"] = "whole"
    model: str = "claude-opus-5"
    other_model: str = "claude-sonnet-5"


DEFAULT_SHAPE = SessionShape()


def generate_session(
    *, seed: int, tokens: int, shape: SessionShape = DEFAULT_SHAPE, start: datetime = START
) -> Iterator[bytes]:
    """The lines of a session, without their newlines, made as they are asked for."""
    if tokens < MIN_TOKENS:
        raise UsageError(
            f"a made-up session of {tokens} tokens is too small to hold a few turns; "
            f"ask for at least {MIN_TOKENS}"
        )
    return _lines(_Generator(seed, tokens, shape, start))


def _lines(story: "_Generator") -> Iterator[bytes]:
    story.begin()
    yield from story.scribe.drain()
    while not story.is_over:
        for _ in story.next_episode():
            yield from story.scribe.drain()
        yield from story.scribe.drain()


class _Generator:
    """Where the session stands: the project, the scribe, what was said, and what is still to come."""

    def __init__(self, seed: int, tokens: int, shape: SessionShape, start: datetime) -> None:
        self.rng = Random(seed)
        self.tokens = tokens
        self.shape = shape
        self.path = ""
        self.memory = phrases.SummaryFacts()
        self.events = _schedule(self.rng, tokens, shape)
        # Small sessions live in small projects, or one file would fill them.
        functions = min(28, max(2, tokens // 4_000))
        self.project = Project(self.rng, files=min(48, max(4, tokens // 6_000)), functions=functions)
        lifetime_ms = LIFETIME_MS[shape.cache_lifetime]
        self.scribe = TranscriptWriter(
            rng=self.rng,
            cwd=self.project.root,
            main=SyntheticThread(UsageModel(MAIN_OVERHEAD, lifetime_ms), shape.model),
            now_ms=round(start.timestamp() * 1000),
            lifetime=shape.cache_lifetime,
            short_copies=shape.display_copies == "short",
        )

    @property
    def is_over(self) -> bool:
        return self.room() <= 0

    def room(self) -> int:
        return self.tokens - self.scribe.flow - HALF_A_MOVE

    def due(self) -> SyntheticEvent | None:
        """The next event, once the conversation has grown to where it belongs, while there is room for it."""
        if not self.events or self.events[0][0] > self.scribe.flow or self.room() < MIN_EVENT_TOKENS:
            return None
        return self.events[0][1]

    def begin(self) -> None:
        scribe = self.scribe
        scribe.session = scribe.uuid()
        scribe.slug = "-".join(
            self.rng.sample(("amber", "quiet", "folding", "river", "pine", "gentle", "comet"), 3)
        )
        scribe.opening(self.rng.sample(phrases.TITLES, 2))

    def next_episode(self) -> Iterator[None]:
        """One prompt and its answer. Yields after every reply, so that lines can leave early."""
        scene = episodes.make_episode_context(self.project, self.room, recent=self.path)
        self.path = scene.path
        match self._take_event():
            case "sidechain":
                yield from self.play(scene, episodes.prompt_for(scene, phrases.DELEGATED), episodes.delegate)
            case "image":
                yield from self.play(scene, episodes.prompt_with_picture(scene), episodes.inspect_picture)
            case "fork":
                yield from self.fork(scene)
            case _:
                yield from self.play(scene, *episodes.ordinary(scene))

    def _take_event(self) -> SyntheticEvent | None:
        """Let what needs no prompt happen at once; name the event that decides the next prompt."""
        while (event := self.due()) is not None:
            del self.events[0]
            if event in ("sidechain", "image", "fork"):
                return event
            self.happen(event)
        return None

    def happen(self, event: SyntheticEvent) -> None:
        scribe = self.scribe
        match event:
            case "boundary":
                transcript = f"{self.project.root}/.claude/{scribe.session}.jsonl"
                rows = min(12, max(1, self.tokens // 12_000))
                summary = phrases.summary_of(self.memory, transcript=transcript, rows=rows)
                full = scribe.main.meter.context >= AUTOMATIC_FROM
                scribe.compact(summary, trigger="auto" if full else "manual")
            case "microcompaction":
                scribe.microcompact()
            case "idle_gap":
                scribe.wait(60 * self.rng.choice(IDLE_MINUTES) * self.rng.uniform(0.9, 1.1))
            case "model_switch":
                main, shape = scribe.main, self.shape
                main.model = shape.other_model if main.model == shape.model else shape.model
            case _:
                raise AssertionError(f"{event} needs a prompt of its own")

    def play(self, scene: EpisodeContext, prompt: PromptContent, episode: Episode) -> Iterator[None]:
        """The prompt, then move after move until the episode ends or something else is due."""
        self._hear(prompt)
        started = self.scribe.now_ms
        needed = episode in (episodes.delegate, episodes.inspect_picture)
        move = SyntheticReply()
        for number, move in enumerate(episode(scene)):
            self._act(move)
            yield
            if not (needed and number == 0) and (self.is_over or self._interrupted()):
                break
        if move.steps:
            self._act(SyntheticReply(text=scene.say(phrases.DONE)))
        self.scribe.end_turn(started)

    def _interrupted(self) -> bool:
        """Let inline events happen; say whether another kind is waiting for the end of the episode."""
        while (event := self.due()) in INLINE and event is not None:
            del self.events[0]
            self.happen(event)
        return event is not None

    def fork(self, scene: EpisodeContext) -> Iterator[None]:
        """Ask, look at the beginning of the answer, take it back, and ask something else instead."""
        mark = self.scribe.mark()
        self._hear(episodes.prompt_for(scene, phrases.QUESTIONS))
        self._act(next(episodes.explore(scene)))
        yield
        self._act(SyntheticReply(text=scene.say(phrases.EXPLAINED)))
        self.memory.prompts.pop()
        self.scribe.rewind(mark)
        yield from self.play(scene, *episodes.ordinary(scene))

    def _hear(self, prompt: PromptContent) -> None:
        text = prompt if isinstance(prompt, str) else prompt[-1]["text"]
        self.memory.prompts.append(text)
        if text in phrases.CORRECTIONS:
            self.memory.rules.append(text)
        self.scribe.prompt(prompt)

    def _act(self, move: SyntheticReply) -> None:
        self.scribe.reply(self.scribe.main, move)
        self.memory.last_text = move.text or self.memory.last_text
        for step in move.steps:
            self.memory.note(step)


def _schedule(rng: Random, tokens: int, shape: SessionShape) -> list[tuple[float, SyntheticEvent]]:
    """When each event is due, in tokens of conversation: spread evenly, with some play, sorted."""
    counts: tuple[tuple[SyntheticEvent, int], ...] = (
        ("boundary", shape.boundaries),
        ("microcompaction", shape.microcompactions),
        ("sidechain", shape.sidechains),
        ("image", shape.images),
        ("idle_gap", shape.idle_gaps),
        ("fork", shape.forks),
        ("model_switch", shape.model_switches),
    )
    due: list[tuple[float, SyntheticEvent]] = [
        (tokens * (0.1 + 0.75 * (place + rng.uniform(0.25, 0.75)) / count), event)
        for event, count in counts
        for place in range(count)
    ]
    return sorted(due, key=lambda planned: planned[0])
