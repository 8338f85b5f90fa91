"""Generates synthetic sessions in the format of Claude Code from a seed.

`tokens` is the size of the conversation: the estimated tokens of everything on the main thread that goes to
the API (prompts, replies, results, summaries; not signatures, display copies, sub-agents, system prompt and
tools). In a session without boundaries, microcompactions and forks, the context of the next call would be
exactly this plus `MAIN_OVERHEAD`.

Equal arguments give equal bytes, on every machine.

    generator.py          what happens when
    episodes.py           what happens between two prompts
    phrases.py            texts of prompts and replies
    transcript_writer.py  clock, ids and links; lines.py: format of a line; usage_model.py: sizes and usage
    workspace/tools.py    results of the tools
    workspace/project.py  the files and how they change; code.py and images.py: their content
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
HALF_A_REPLY = 200  # tokens; ending this early, sessions are below their size as often as above
MIN_EVENT_TOKENS = 600  # tokens; about what the shortest summary or sub-agent task needs
LIFETIME_MS = {"5m": 5 * 60_000, "1h": 60 * 60_000}
AUTOMATIC_FROM = 155_000  # the smallest context at which recorded sessions were compacted automatically
IDLE_MINUTES = (8, 25, 70, 190)

SyntheticEvent = Literal[
    "boundary", "microcompaction", "sidechain", "image", "idle_gap", "fork", "model_switch"
]
INLINE: frozenset[SyntheticEvent] = frozenset({"boundary", "microcompaction"})
"""Events in the middle of an episode. All others wait for its end, and make it end earlier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionShape:
    """How often each kind of event happens in a session.

    Counts are exact, with two exceptions: events that do not fit into a small session are left out, and so
    are microcompactions with nothing to clear.

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
    """The lines of a session, without newlines, generated on demand."""
    if tokens < MIN_TOKENS:
        raise UsageError(
            f"a synthetic session of {tokens} tokens is too small for a few turns; "
            f"ask for at least {MIN_TOKENS}"
        )
    return _lines(_Generator(seed, tokens, shape, start))


def _lines(generator: "_Generator") -> Iterator[bytes]:
    generator.begin()
    yield from generator.writer.drain()
    while not generator.is_over:
        for _ in generator.next_episode():
            yield from generator.writer.drain()
        yield from generator.writer.drain()


class _Generator:
    """The state of a session: the project, the writer, what was said, and the remaining events."""

    def __init__(self, seed: int, tokens: int, shape: SessionShape, start: datetime) -> None:
        self.rng = Random(seed)
        self.tokens = tokens
        self.shape = shape
        self.path = ""
        self.memory = phrases.SummaryFacts()
        self.events = _schedule(self.rng, tokens, shape)
        # Small sessions get small projects, or one file would fill them.
        functions = min(28, max(2, tokens // 4_000))
        self.project = Project(self.rng, files=min(48, max(4, tokens // 6_000)), functions=functions)
        lifetime_ms = LIFETIME_MS[shape.cache_lifetime]
        self.writer = TranscriptWriter(
            rng=self.rng,
            cwd=self.project.root,
            main=SyntheticThread(UsageModel(MAIN_OVERHEAD, lifetime_ms), shape.model),
            now_ms=round(start.timestamp() * 1000),
            lifetime=shape.cache_lifetime,
            short_copies=shape.display_copies == "short",
        )

    @property
    def is_over(self) -> bool:
        return self.tokens_left() <= 0

    def tokens_left(self) -> int:
        return self.tokens - self.writer.flow - HALF_A_REPLY

    def due(self) -> SyntheticEvent | None:
        """The next event if the conversation has reached its position and enough tokens are left."""
        if not self.events or self.events[0][0] > self.writer.flow or self.tokens_left() < MIN_EVENT_TOKENS:
            return None
        return self.events[0][1]

    def begin(self) -> None:
        writer = self.writer
        writer.session = writer.uuid()
        writer.slug = "-".join(
            self.rng.sample(("amber", "quiet", "folding", "river", "pine", "gentle", "comet"), 3)
        )
        writer.opening(self.rng.sample(phrases.TITLES, 2))

    def next_episode(self) -> Iterator[None]:
        """One prompt and its replies. Yields after every reply, so that lines can be written early."""
        episode_context = episodes.make_episode_context(self.project, self.tokens_left, recent=self.path)
        self.path = episode_context.path
        match self._take_event():
            case "sidechain":
                yield from self.play(
                    episode_context,
                    episodes.prompt_for(episode_context, phrases.DELEGATED),
                    episodes.delegate,
                )
            case "image":
                yield from self.play(
                    episode_context, episodes.prompt_with_picture(episode_context), episodes.inspect_picture
                )
            case "fork":
                yield from self.fork(episode_context)
            case _:
                yield from self.play(episode_context, *episodes.ordinary(episode_context))

    def _take_event(self) -> SyntheticEvent | None:
        """Performs events that need no prompt, and returns the event that decides the next prompt."""
        while (event := self.due()) is not None:
            del self.events[0]
            if event in ("sidechain", "image", "fork"):
                return event
            self.happen(event)
        return None

    def happen(self, event: SyntheticEvent) -> None:
        writer = self.writer
        match event:
            case "boundary":
                transcript = f"{self.project.root}/.claude/{writer.session}.jsonl"
                rows = min(12, max(1, self.tokens // 12_000))
                summary = phrases.summary_of(self.memory, transcript=transcript, rows=rows)
                full = writer.main.usage_model.context >= AUTOMATIC_FROM
                writer.compact(summary, trigger="auto" if full else "manual")
            case "microcompaction":
                writer.microcompact()
            case "idle_gap":
                writer.wait(60 * self.rng.choice(IDLE_MINUTES) * self.rng.uniform(0.9, 1.1))
            case "model_switch":
                main, shape = writer.main, self.shape
                main.model = shape.other_model if main.model == shape.model else shape.model
            case _:
                raise AssertionError(f"{event} needs a prompt of its own")

    def play(
        self, episode_context: EpisodeContext, prompt: PromptContent, episode: Episode
    ) -> Iterator[None]:
        """The prompt, then reply after reply until the episode ends or another event is due."""
        self._hear(prompt)
        started = self.writer.now_ms
        needed = episode in (episodes.delegate, episodes.inspect_picture)
        reply = SyntheticReply()
        for number, reply in enumerate(episode(episode_context)):
            self._add_reply(reply)
            yield
            if not (needed and number == 0) and (self.is_over or self._interrupted()):
                break
        if reply.steps:
            self._add_reply(SyntheticReply(text=episode_context.say(phrases.DONE)))
        self.writer.end_turn(started)

    def _interrupted(self) -> bool:
        """Performs inline events; returns whether another kind of event waits for the end of the episode."""
        while (event := self.due()) in INLINE:
            del self.events[0]
            self.happen(event)
        return event is not None

    def fork(self, episode_context: EpisodeContext) -> Iterator[None]:
        """Asks, gets the start of an answer, rewinds, and asks something else."""
        mark = self.writer.rewind_point()
        self._hear(episodes.prompt_for(episode_context, phrases.QUESTIONS))
        self._add_reply(next(episodes.explore(episode_context)))
        yield
        self._add_reply(SyntheticReply(text=episode_context.say(phrases.EXPLAINED)))
        self.memory.prompts.pop()
        self.writer.rewind(mark)
        yield from self.play(episode_context, *episodes.ordinary(episode_context))

    def _hear(self, prompt: PromptContent) -> None:
        text = prompt if isinstance(prompt, str) else prompt[-1]["text"]
        self.memory.prompts.append(text)
        if text in phrases.CORRECTIONS:
            self.memory.rules.append(text)
        self.writer.prompt(prompt)

    def _add_reply(self, reply: SyntheticReply) -> None:
        self.writer.reply(self.writer.main, reply)
        self.memory.last_text = reply.text or self.memory.last_text
        for step in reply.steps:
            self.memory.note(step)


def _schedule(rng: Random, tokens: int, shape: SessionShape) -> list[tuple[float, SyntheticEvent]]:
    """When each event is due, in tokens of conversation: spread evenly with some variation, sorted."""
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
