"""A recorded session sent by a peer library: its code decides what is sent, ours bills it (RP-4, RP-6).

`replay/playing/player.py` does the same with everturn's engine. Token counts, cache, prices and refetches are
the same in both. A request that the API would refuse is counted and billed as if it had been accepted, so
that the rest of the session can be compared.
"""

from collections.abc import Iterator, Sequence

import msgspec

from everturn.history.blocks import Block, block_from_fields, result_block, text_block
from everturn.history.messages import Message
from everturn.history.records import Record, Usage
from everturn.measure.capabilities import ANTHROPIC
from everturn.measure.model import Model
from everturn.measure.outline import CacheKeySalts
from everturn.measure.prediction import Prediction
from everturn.measure.prefix_cache import PrefixCache, PromptLayout
from everturn.replay.playing.cache_billing import (
    LastPromptForecast,
    bill_request,
    build_prompt,
    usage_from_prediction,
)
from everturn.replay.playing.call_log import CallLog, UnpricedCall
from everturn.replay.playing.counting import ScaledCosts
from everturn.replay.playing.player import FETCHING_TOKENS, ThreadModels, thinking_parameter
from everturn.replay.playing.prepared import index_uses, prepare
from everturn.replay.playing.steps import ReplayStep, ReplayThread
from everturn.replay.policies import REPLAY_POLICIES
from everturn.replay.refetches import Refetch, SessionUses
from everturn.replay.refetches.outputs import block_text, shown_blocks
from everturn.replay.runs import CallSource, ReplayRun, SimulatedCall, totals_of
from everturn.replay.sessions import ReplaySession
from everturn.twin.options import TwinOptions
from everturn.twin.parse import parse_request
from everturn.twin.validate import validate
from everturn.twin.values import ApiError
from everturn.view.cache_key import compute_key_salts
from everturn.view.flatten import Flattener
from everturn.view.key_parameters import KeyParameters, TtlChoice
from everturn.wire.anthropic import Request
from peers.keeping import Json, Kind, Stage
from peers.listening import Listener
from peers.sight import Sight
from peers.spelling import message_value, plain_request, request_of

# After so many tries to make a prompt fit, a peer does not get it to fit.
_MOST_RECOVERIES = 20
# Recorded thinking was signed by somebody else; that is nobody's mistake here.
_JUDGE = TwinOptions(foreign_signatures="accept")
# What stands for a system prompt and tools that were not recorded: words, so that estimates by characters and
# real tokenizers come to about the same.
_HEAD_CHARACTERS_A_TOKEN = 4
_HEAD_WORDS = (
    "Read a file before changing it, run the tests that cover it, and say plainly what they showed. "
)


class Played(msgspec.Struct, frozen=True):
    """A run, and what the API would have said to it: requests refused, and why, each reason once."""

    run: ReplayRun
    refused: int = 0
    reasons: tuple[str, ...] = ()


def play(session: ReplaySession, kind: Kind, uses: SessionUses | None = None) -> Played:
    prepared, cache = prepare(session), PrefixCache()
    known = uses or index_uses(session)
    policy = REPLAY_POLICIES["none"]
    threads = [
        _Thread(acts, prepared.thread_models(at, policy), kind, cache, Sight(known.thread(at)))
        for at, acts in enumerate(prepared.whole)
        if acts.calls
    ]
    for thread in threads:
        thread.play()
    calls = tuple(call for thread in threads for call in thread.journal.calls)
    ended = "; ".join(thread.ended_early for thread in threads if thread.ended_early)
    reasons = tuple(dict.fromkeys(reason for thread in threads for reason in thread.reasons))
    run = ReplayRun(session.name, kind.name, calls, totals_of(calls, {}), ended, prepared.notes(policy))
    return Played(run, sum(len(thread.reasons) for thread in threads), reasons)


class _Thread:
    def __init__(
        self, acts: ReplayThread, cast: ThreadModels, kind: Kind, cache: PrefixCache, sight: Sight
    ) -> None:
        self._acts, self._cast, self._kind, self._cache, self._sight = acts, cast, kind, cache, sight
        self._act = acts.calls[0]
        self._forecast = LastPromptForecast(cache)
        self._listener = Listener()
        self._billed = 0
        # Whether the provider's cache lost something before the current call, as in the recording.
        self._was_lost = False
        head = _head_text(acts.name, cast)
        for costs in cast.costs.values():
            costs.set_tokens(text_block(head), cast.preamble.tokens)
        model = cast.models[self._act.model]
        self._keeper = kind.open(Stage(model.window, head, self._listener.write, count=self._count))
        self._flattener = Flattener()
        # What the keeper was told of what the flattener made.
        self._told: list[Message] = []
        self._blocks = {name: block for record in _records(acts) for name, block in _named(record)}
        self.journal = CallLog(acts.name)
        self.ended_early = ""
        self.reasons: list[str] = []

    def play(self) -> Sequence[SimulatedCall]:
        for act in self._acts.calls:
            self._act = act
            self._add(act.before)
            if not self._call(act):
                break
        return self.journal.calls

    def _call(self, act: ReplayStep) -> bool:
        found = self._ask_until_it_fits()
        if found and (missing := self._sight.missing([each.uuid for each in act.reply], found[0])):
            self._fetch(found[1], missing)
            found = self._ask_until_it_fits()
        if not found:
            return False
        output = self._costs.all(block for record in act.reply for block in record.blocks)
        usage = self._bill("main", found[1], output)
        self._add(act.reply, usage)
        return True

    # ── what the keeper is told ──────────────────────────────────────────────────────────────────

    def _add(self, records: Sequence[Record], usage: Usage | None = None) -> None:
        for record in records:
            self._flattener.add(record)
        self._listener.tell(records)
        flat = self._flattener.since(0)
        if usage is not None:
            # Calls without results are completed with made-up ones; the real ones are still to come.
            flat = flat[: max(len(self._told), _last_reply(flat) + 1)]
        for message in _news(self._told, flat):
            self._keeper.hear(message_value(message), usage if message.role == "assistant" else None)
        self._told = flat

    def _fetch(self, parts: Prediction, missing: tuple[Refetch, ...]) -> None:
        """The model asks for what it cannot see, and is shown it, word for word."""
        call = f"fetch-{self._acts.name}-{self._act.number}"
        wanted = {"again": [refetch.block for refetch in missing]}
        asks = block_from_fields({"type": "tool_use", "id": call, "name": "Read", "input": wanted})
        words = "\n\n".join(block_text(self._blocks[refetch.block]) for refetch in missing)
        self._costs.set_tokens(asks, FETCHING_TOKENS)
        usage = self._bill("refetch", parts, FETCHING_TOKENS, missing)
        for number, (role, block) in enumerate((("assistant", asks), ("user", result_block(call, words)))):
            self._listener.tell([Record(kind=role, uuid=f"{call}-{number}", blocks=(block,))])
            message = Message(role, (block,))
            self._keeper.hear(message_value(message), usage if role == "assistant" else None)

    def _count(self, fields: Json) -> int:
        return self._costs.block(block_from_fields(fields))

    # ── what it sends ────────────────────────────────────────────────────────────────────────────

    def _ask_until_it_fits(self) -> tuple[Request, Prediction] | None:
        for _ in range(_MOST_RECOVERIES):
            self._keeper.decide()
            self._bill_summaries()
            request = request_of(self._keeper.body(), self._model.id)
            prompt = self._prompt(request)
            if prompt.total <= self._model.window:
                self._judge(request)
                return request, self._send(prompt)
            if not self._keeper.overflowed():
                break
            self._bill_summaries()
        self.ended_early = (
            f"{self._acts.name}: call {self._act.number} of {len(self._acts.calls)} has "
            f"{prompt.total:,} tokens, and the window {self._model.window:,}"
        )
        return None

    def _send(self, prompt: PromptLayout) -> Prediction:
        """What the provider's cache did on its own applies to everybody alike."""
        number, now = self._act.number, self._act.at.timestamp()
        self._forecast.event = self._cast.events.get(number)
        self._forecast.warm = self._cast.warm.get(number, 0)
        parts = self._forecast.predict(prompt, now)
        self._was_lost = self._forecast.lost_behind is not None
        self._forecast.settle(usage_from_prediction(parts, 0), now)
        return parts

    def _judge(self, request: Request) -> None:
        try:
            validate(parse_request("messages", {}, plain_request(request), workspace="peers"), _JUDGE)
        except ApiError as refusal:
            self.reasons.append(str(refusal))

    # ── what it costs ────────────────────────────────────────────────────────────────────────────

    def _bill(
        self, source: CallSource, parts: Prediction, output: int, refetches: tuple[Refetch, ...] = ()
    ) -> Usage:
        broke = self._explain_break() if self.journal.has_cache_break(parts) else ""
        self._write(UnpricedCall(
            source=source, number=self._act.number, at=self._act.at, parts=parts, output=output,
            broke=broke, refetches=refetches,
        ))  # fmt: skip
        return usage_from_prediction(parts, output)

    def _explain_break(self) -> str:
        """Why much less was read than the call before had cached, in the words of `player.py`."""
        if self._was_lost:
            return "the provider lost the entry, as in the recording"
        if self.journal.has_expired(self._act.at, "5m"):
            return "cache expired"
        return "the peer changed what it had sent"

    def _bill_summaries(self) -> None:
        for asked, answer in self._listener.asked[self._billed :]:
            output = self._costs.block(text_block(answer))
            self._write(UnpricedCall(
                source="compact", number=self._act.number, at=self._act.at,
                parts=self._parts_of_summary(asked), output=output, why="writes a summary",
            ))  # fmt: skip
        self._billed = len(self._listener.asked)

    def _parts_of_summary(self, asked: str) -> Prediction:
        if self._kind.asks_warm:
            return bill_request(
                self._cache, self._prompt(request_of(self._keeper.asked, self._model.id)), self._act.at
            )  # type: ignore[attr-defined]
        return Prediction(0, 0, 0, self._costs.block(text_block(asked)))

    def _prompt(self, request: Request) -> PromptLayout:
        return build_prompt(request, self._costs, self._salts, ANTHROPIC, self._model.min_cache)

    def _write(self, entry: UnpricedCall) -> None:
        self.journal.write(entry, self._model, None, None)

    @property
    def _model(self) -> Model:
        return self._cast.models[self._act.model]

    @property
    def _costs(self) -> ScaledCosts:
        return self._cast.costs[self._act.model]

    @property
    def _salts(self) -> CacheKeySalts:
        ttl = TtlChoice("5m", "as peers have it by default")
        thinking = thinking_parameter(self._model, self._act)
        return compute_key_salts(self._model, KeyParameters(ttl, thinking=thinking))


def _news(told: Sequence[Message], flat: Sequence[Message]) -> Iterator[Message]:
    """What was said since: whole messages, and what was added to the last one."""
    if told and len(flat) >= len(told) and flat[len(told) - 1] != told[-1]:
        grown, last = flat[len(told) - 1], told[-1]
        yield Message(grown.role, grown.blocks[len(last.blocks) :])
    yield from flat[len(told) :]


def _last_reply(flat: Sequence[Message]) -> int:
    return max((at for at, message in enumerate(flat) if message.role == "assistant"), default=-1)


def _head_text(thread: str, cast: ThreadModels) -> str:
    """System prompt and tools: as recorded, or as many words."""
    length = cast.preamble.tokens * _HEAD_CHARACTERS_A_TOKEN
    name = f"[system prompt and tools of {thread}] "
    return (
        cast.preamble.text
        or (name + _HEAD_WORDS * (length // len(_HEAD_WORDS) + 1))[: max(length, len(name))]
    )


def _records(acts: ReplayThread) -> Iterator[Record]:
    for act in acts.calls:
        yield from (*act.before, *act.reply)


def _named(record: Record) -> Iterator[tuple[str, Block]]:
    for at, block in enumerate(shown_blocks(record)):
        yield f"{record.uuid}:{at}", block
