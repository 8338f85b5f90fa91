"""Sessions by chance, the same for the same seed: talk, tools, pauses, edits, changes of everything.

Small numbers everywhere, so that in two dozen steps every kind of edit gets its turn.
"""

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import builders as b
import msgspec
from engine.held import Held, calls, head, thought, words
from presets import with_numbers

from everturn.decide.options import Options
from everturn.decide.settings import (
    BudgetSettings,
    CachedSettings,
    ClearAtSettings,
    MaskingSettings,
    MicroSettings,
    OversizeSettings,
    TimeSettings,
    WindowSettings,
)
from everturn.measure.capabilities import ANTHROPIC, EXTENDED_TWIN
from everturn.session.upstream import UpstreamError
from everturn.twin.options import TwinOptions

BINDING = ("claude-fable-5-2", "claude-opus-5-5", "claude-sonnet-5-5")
NAMES = ("claude-code", "frugal", "when-cold", "masking", "clear-keep-3", "sliding-window", "everything")
STEPS = 14
BRIEF = "Read before you write. " * 130
HEADS = tuple(
    head(system=BRIEF + more, tools=tools)
    for more in ("", "Answer in French.")
    for tools in (("Bash", "Read"), ("Bash", "Edit", "Read"))
)
# Nothing is worth its thinking in so small a session; let most edits be worth it, and some not.
SMALL = MicroSettings(
    time=TimeSettings(keep=1),
    cached=CachedSettings(trigger=4, keep=2),
    budget=BudgetSettings(tokens=500, keep=1, save_at_least=50, where="everywhere"),
    oversize=OversizeSettings(message=3_000, single=1_500, preview=100),
    masking=MaskingSettings(keep=2),
    clear_at=ClearAtSettings(trigger=1_500, keep=1),
    window=WindowSettings(tokens=3_000, share=0.6),
    thinking_worth=0.3,
)


def small(name: str) -> Options:
    if name != "everything":
        return with_numbers(name, SMALL)
    steps = ("oversize", "time", "cached", "window", "clear_at")
    return Options(policy=name, micro=msgspec.structs.replace(SMALL, steps=steps))


class Session:
    """One session, and what may be doubted in it.

    After a restart our picture holds what the log tells of the key in force; an entry of another key may be
    found in spite of it. Where the restart had nothing to go on from, nobody knows how old the entries are
    that are found; and even the size is a guess until the tool loop that was cut off has ended, for the
    thinking of a model that is gone cannot leave before.
    """

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = random.Random(seed)
        extended = self.rng.random() < 0.3
        self.held = Held(
            folder,
            model=self.rng.choice(BINDING),
            under=small(self.rng.choice(NAMES)),
            ttl=self.rng.choice(("5m", "1h")),
            able=EXTENDED_TWIN if extended else ANTHROPIC,
            options=TwinOptions(extensions=frozenset({"cache_edits"}) if extended else frozenset()),
            top=HEADS[0],
        )
        self.waiting: list[str] = []
        self.names = 0
        self.restarted_at = self.blind_from = STEPS
        self.doubts = False
        self.doubtful: set[int] = set()

    def run(self) -> None:
        for _ in range(STEPS):
            self.disturb()
            if self.doubts:
                self.doubtful.add(len(self.held.done))
            if self.waiting:
                self.answer()
            else:
                self.ask()
            self.doubts = self.doubts and bool(self.waiting)

    @property
    def wrong(self) -> list[str]:
        """What was predicted wrongly without an excuse."""
        return [
            verdict
            for at, verdict in enumerate(self.held.verdicts)
            if verdict != "as predicted"
            and at not in self.doubtful
            and not (at >= self.restarted_at and "more tokens were read" in verdict)
            and not (at >= self.blind_from and "should have been read" in verdict)
        ]

    # ── one step ─────────────────────────────────────────────────────────────────────────────────

    def ask(self) -> None:
        self.held.runner.say(words(self.rng.randrange(60), "Please."))
        self.model_speaks()

    def answer(self) -> None:
        large = self.rng.random() < 0.2
        tokens = self.rng.randrange(700, 1_500) if large else self.rng.randrange(150)
        self.held.runner.answer([(name, words(tokens, name)) for name in self.waiting])
        if self.rng.random() < 0.15:
            self.held.runner.say("By the way: hurry.")
        self.waiting = []
        self.model_speaks()

    def model_speaks(self) -> None:
        if self.rng.random() < 0.05:
            self.fail()
        said = [thought(f"step {len(self.held.done)}")] if self.rng.random() < 0.8 else []
        if self.rng.random() < 0.5:
            said.append({"type": "text", "text": words(self.rng.randrange(40), "Well.")})
        if self.rng.random() < 0.55:
            width = self.rng.choice((1, 1, 2, 3, 24))
            self.waiting = [f"toolu_{self.names + at:04d}" for at in range(width)]
            self.names += width
            said += calls(self.waiting, "Read")
        self.held.call(*(said if said and said[-1]["type"] != "thinking" else [*said, "Done."]))

    # ── what comes in between ────────────────────────────────────────────────────────────────────

    def disturb(self) -> None:
        happens: list[tuple[float, Callable[[], None]]] = [
            (0.25, self.pause),
            (0.12, self.change_head),
            (0.06, self.change_model),
            (0.05, self.compact),
            (0.08, self.restart),
        ]
        for chance, act in happens:
            if self.rng.random() < chance:
                act()

    def pause(self) -> None:
        self.held.wait(self.rng.choice((30, 290, 301, 1_000, 3_590, 3_700, 9_000)))

    def change_head(self) -> None:
        self.held.change(preamble=self.rng.choice(HEADS))

    def change_model(self) -> None:
        self.held.change(model=self.rng.choice((*BINDING, "claude-opus-5", "claude-haiku-5-5")))

    def compact(self) -> None:
        """A compaction that keeps nothing, the last reply, or all of the running tool loop's last round."""
        name = f"{len(self.held.done)}"
        records = [r for r in self.held.runner.conversation.log.view.records if r.kind == "assistant"]
        keeps = bool(self.waiting) or self.rng.random() < 0.5
        kept = (records[-1].uuid, f"s{name}", records[-1].uuid) if keeps and records else None
        self.held.runner.add(b.boundary(f"b{name}", kept=kept))
        self.held.runner.add(b.summary(words(100, "In short."), uuid=f"s{name}", parent=f"b{name}"))

    def restart(self) -> None:
        lost = self.rng.random() < 0.3
        wants_other = self.held.runner.conversation.setting != self.held.runner.conversation.cache.sent
        self.held.restart(baselines="lost" if lost else "kept")
        self.restarted_at = min(self.restarted_at, len(self.held.done))
        if lost or wants_other:
            self.doubts = True
            self.blind_from = min(self.blind_from, len(self.held.done))

    def fail(self) -> None:
        """A call that meets an overloaded provider, once or twice; it is made again."""
        for _ in range(self.rng.randrange(1, 3)):
            self.held.box.faults("overloaded")
            with suppress(UpstreamError):
                self.held.runner.call()
            assert self.held.twin.ledger()[-1]["error"]["type"] == "overloaded_error"
