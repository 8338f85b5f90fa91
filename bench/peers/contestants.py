"""Everyone who is measured, in one shape: opened on a session, then asked for one turn after the other.

Each does what it would do before a model call, with its own defaults, and nothing that can be prepared is
timed. Where a choice had to be made it was made in the peer's favour; the comments say which.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, Protocol

import msgspec
from session import Session, requests, text_of_result

from everturn.decide.compact.ground import CompactionStyle
from everturn.decide.policy import policy
from everturn.engine import Conversation, Setting, Turn
from everturn.history.records import Record, Usage, Written, when
from everturn.measure.capabilities import ANTHROPIC
from everturn.measure.models import find
from everturn.measure.prediction import Prediction
from everturn.replay.stage import coding_head
from everturn.session.drivers import drive
from everturn.session.upstream import Answered
from everturn.session.world import RealWorld
from everturn.twin.costs import TwinCosts
from everturn.view.lifetime import KeyParameters, lifetime

MODEL = "claude-opus-5"
WINDOW = 1_000_000


class Contestant(Protocol):
    """`prepare` is not timed, `turn` is, `outcome` says in a few words what came of it."""

    def prepare(self, number: int) -> None: ...
    def turn(self) -> None: ...
    def outcome(self) -> str: ...


# ── everturn ─────────────────────────────────────────────────────────────────────────────────────


class Everturn:
    """The reply is taken in, its results are added, and the next turn is decided."""

    def __init__(self, told: Session, *, kept: str) -> None:
        self._turns = told.turns
        self._folder = TemporaryDirectory()
        self._world = RealWorld(_nobody, Path(self._folder.name))
        self._ids = (f"bench-{number}" for number in count())
        self._conversation = Conversation(setting_for(kept), told.before)
        self._last = self._ask(time_of(told.before))

    def prepare(self, number: int) -> None:
        records = self._turns[number]
        self._reply = [record for record in records if record.kind == "assistant"]
        self._answers = [record for record in records if record.kind != "assistant"]
        # A provider that does what was predicted: every turn is an ordinary, warm one.
        self._usage = _as_predicted(self._last.prediction)
        self._replied_at, self._asked_at = time_of(self._reply), time_of(records)

    def turn(self) -> None:
        self._conversation.replied(self._reply, self._usage, self._replied_at)
        for record in self._answers:
            self._conversation.add(record)
        self._last = self._ask(self._asked_at)

    def outcome(self) -> str:
        cleared = len(self._conversation.log.view.cleared)
        return f"{cleared} results cleared, {self._last.prediction.total:,} tokens to send"

    def _ask(self, now: datetime) -> Turn:
        return drive(self._conversation.turn(now, self._ids.__next__), self._world)


class EverturnWithBytes(Everturn):
    """The same, and the body of the request is written: what a caller waits for in all."""

    def turn(self) -> None:
        super().turn()
        self._body = self._last.request().to_bytes()

    def outcome(self) -> str:
        return f"{len(self._body) / 1e6:.1f} MB to send"


def _nobody(body: bytes, betas: Sequence[str]) -> Answered:
    raise SystemExit("a turn asked a model, and none of the measured turns should")


def setting_for(kept: str) -> Setting:
    model, kind = find(MODEL), policy(kept)
    if model is None:
        raise SystemExit(f"everturn knows no model {MODEL!r}; name one in bench/peers/contestants.py")
    # A window beyond every size: turns look whether a compaction is due, and none is (`compaction.py`).
    model = replace(model, window=10 * WINDOW)
    return Setting(
        model=model,
        capabilities=ANTHROPIC,
        policy=kind,
        costs=TwinCosts(model),
        head=coding_head(),
        parameters=KeyParameters(lifetime("main", "conversation", kind.ttl, ANTHROPIC)),
        fields={"max_tokens": 8_000},
        compaction=CompactionStyle(ways=("fork",), transcript="session.jsonl"),
    )


def _as_predicted(said: Prediction) -> Usage:
    return Usage(
        input_tokens=said.plain,
        cache_read_input_tokens=said.read,
        cache_creation_input_tokens=said.write_5m + said.write_1h,
        cache_creation=Written(said.write_5m, said.write_1h),
    )


def time_of(records: Sequence[Record]) -> datetime:
    return next(filter(None, map(when, reversed(records))), datetime(2026, 1, 1, tzinfo=UTC))


# ── LangChain ────────────────────────────────────────────────────────────────────────────────────


class LangChainMessages:
    """Messages become LangChain's once; what a graph does to keep them is not timed."""

    def __init__(self, told: Session) -> None:
        self._requests = requests(told)
        self._known: dict[int, list[Any]] = {}

    def messages(self, number: int) -> list[Any]:
        found: list[Any] = []
        for message in self._requests[number]:
            key = id(message)
            if key not in self._known:
                self._known[key] = _langchain_messages(message)
            found.extend(self._known[key])
        return found


class ContextEditing(LangChainMessages):
    """ContextEditingMiddleware with ClearToolUsesEdit as it comes, around a model call that does nothing.
    Its counter is the approximate one, which is also its default."""

    def __init__(self, told: Session) -> None:
        from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware

        super().__init__(told)
        self._middleware = ContextEditingMiddleware(edits=[ClearToolUsesEdit()])
        self._model = _no_model()

    def prepare(self, number: int) -> None:
        from langchain.agents.middleware.types import ModelRequest

        self._request = ModelRequest(model=self._model, messages=self.messages(number))

    def turn(self) -> None:
        self._sent: Any = self._middleware.wrap_model_call(self._request, lambda request: request)

    def outcome(self) -> str:
        from langchain_core.messages import ToolMessage

        results = [each for each in self._sent.messages if isinstance(each, ToolMessage)]
        cleared = sum("context_editing" in each.response_metadata for each in results)
        return f"{cleared} of {len(results)} results cleared"


class SummarizationWatch(LangChainMessages):
    """SummarizationMiddleware on a turn that needs no summary: all it does is to look whether one is due."""

    def __init__(self, told: Session) -> None:
        from langchain.agents.middleware import SummarizationMiddleware

        super().__init__(told)
        # Beyond the largest size, so that it never summarizes.
        self._middleware = SummarizationMiddleware(_no_model(), trigger=("tokens", 10 * WINDOW))

    def prepare(self, number: int) -> None:
        self._state: Any = {"messages": self.messages(number)}

    def turn(self) -> None:
        self._update = self._middleware.before_model(self._state, None)  # type: ignore[arg-type]

    def outcome(self) -> str:
        return "no summary due" if self._update is None else "SUMMARIZED, which it should not have"


def _no_model() -> Any:
    from langchain_core.language_models.fake_chat_models import FakeListChatModel

    return FakeListChatModel(responses=["never asked"])


def _langchain_messages(message: dict[str, Any]) -> list[Any]:
    """As the integration for this provider spells them: calls stand in the content and in `tool_calls`."""
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    blocks = message["content"]
    if isinstance(blocks, str):
        blocks = [{"type": "text", "text": blocks}]
    if message["role"] == "assistant":
        calls = [
            {"name": block["name"], "args": block["input"], "id": block["id"]}
            for block in blocks
            if block["type"] == "tool_use"
        ]
        return [AIMessage(content=blocks, tool_calls=calls)]
    results = [block for block in blocks if block["type"] == "tool_result"]
    said = [block for block in blocks if block["type"] != "tool_result"]
    found: list[Any] = [
        ToolMessage(content=text_of_result(block), tool_call_id=block["tool_use_id"]) for block in results
    ]
    return [*found, HumanMessage(content=said)] if said else found


# ── headroom ─────────────────────────────────────────────────────────────────────────────────────


class Headroom:
    """`compress`, told that the messages of the request before are in the provider's cache; or that none are.

    Its text model and its exact tokenizer are downloads; it runs without the one and with its own estimate
    instead of the other. Both should make it faster; that was not measured.
    """

    def __init__(self, told: Session, *, cached: Literal["the request before", "nothing"]) -> None:
        os.environ["HEADROOM_OFFLINE"] = "1"
        from headroom import compress

        self._compress = compress
        self._requests = requests(told)
        self._cached = cached

    def prepare(self, number: int) -> None:
        self._messages = self._requests[number]
        # A turn adds the reply and what answers it.
        self._frozen = 0 if self._cached == "nothing" else len(self._messages) - 2

    def turn(self) -> None:
        self._result = self._compress(
            self._messages,
            model="claude-opus-4-5",
            model_limit=WINDOW,
            frozen_message_count=self._frozen,
            kompress_model="disabled",
        )

    def outcome(self) -> str:
        saved, left = self._result.tokens_saved, self._result.tokens_after
        return f"{saved:,} tokens saved, {left:,} tokens to send"


# ── who takes part ───────────────────────────────────────────────────────────────────────────────

Open = Callable[[Session], Contestant]


class Entry(msgspec.Struct, frozen=True):
    """Who is measured. `package` is empty for ourselves; `wanted` are those that the goal is about."""

    name: str
    open: Open
    package: str = ""
    wanted: bool = False


ENTRIES = (
    Entry("everturn", lambda told: Everturn(told, kept="claude-code")),
    Entry("everturn, with the request's bytes", lambda told: EverturnWithBytes(told, kept="claude-code")),
    Entry("everturn, clearing all but 3", lambda told: Everturn(told, kept="clear-keep-3")),
    Entry("LangChain ContextEditing", ContextEditing, package="langchain", wanted=True),
    Entry("LangChain Summarization, watching", SummarizationWatch, package="langchain"),
    Entry(
        "headroom compress, incremental",
        lambda told: Headroom(told, cached="the request before"),
        package="headroom-ai",
        wanted=True,
    ),
    Entry(
        "headroom compress, nothing cached",
        lambda told: Headroom(told, cached="nothing"),
        package="headroom-ai",
    ),
)
