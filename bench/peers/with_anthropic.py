"""The API's own context editing, as the twin applies it on the provider's side (`twin/context_editing.py`).

The client sends everything with one automatic marker and one on its head; the cache sees what is left after
the edits. `clear_tool_uses_20250919` with its defaults; once more with a least amount to clear, which is what
the API offers against rewriting the cache for little; and `compact_20260112` with its default trigger.
"""

from typing import Any

import msgspec

from everturn.history.records import Usage
from everturn.measure.model_table import Model
from everturn.twin.context_editing import CLEAR_TOOL_USES, COMPACT, apply_edits
from everturn.twin.options import TwinOptions
from everturn.twin.parse import parse_request
from everturn.twin.request_layout import lay_out
from everturn.twin.values import ParsedBlock
from peers.keeping import Json, Kind, Stage, marked_at_the_end, marked_head, words_in

# A fifth of what triggers an edit.
_AT_LEAST = {"type": "input_tokens", "value": 20_000}


class _Messages:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._counted: dict[int, tuple[ParsedBlock, int]] = {}
        counter = self._count if stage.count else None
        self._options = TwinOptions(foreign_signatures="accept", counter=counter)
        self.messages: list[Json] = []

    def hear(self, message: Json, usage: Usage | None = None) -> None:
        self.messages.append(message)

    def overflowed(self) -> bool:
        return False

    def _count(self, block: ParsedBlock, model: Model) -> int:
        """Parsed blocks are the same objects in every request, and are held here, so that ids stay theirs."""
        known = self._counted.get(id(block))
        if known is None and self._stage.count:
            known = self._counted[id(block)] = block, self._stage.count(block.body)
        return known[1] if known else 0

    def _body(self, edit: Json) -> Any:
        body = {
            "model": self._stage.model,
            "max_tokens": 8_000,
            "system": self._stage.head,
            "messages": self.messages,
            "context_management": {"edits": [edit]},
        }
        return parse_request("messages", {}, msgspec.json.encode(body), workspace="peers")


class Clearing(_Messages):
    def __init__(self, stage: Stage, edit: Json) -> None:
        super().__init__(stage)
        self._edit = edit

    def decide(self) -> None:
        self._seen = apply_edits(self._body(self._edit), self._options).request

    def body(self) -> Json:
        sent = [
            {"role": message.role, "content": [dict(block.body) for block in message.blocks]}
            for message in self._seen.messages
        ]
        return {"system": marked_head(self._stage.head), "messages": marked_at_the_end(sent)}


class Compaction(_Messages):
    """Over the trigger everything is summarized, and the summary alone stands before what comes next."""

    def decide(self) -> None:
        trigger = self._stage.compact_at or self._options.compaction_default_trigger
        if lay_out(self._body({"type": COMPACT}), self._options).total <= trigger:
            return
        self.asked = self.body()
        summary = self._stage.writer(words_in(self.messages))
        self.messages = [{"role": "user", "content": [{"type": "text", "text": summary}]}]

    def body(self) -> Json:
        return {"system": marked_head(self._stage.head), "messages": marked_at_the_end(self.messages)}


PACKAGES = ()
_CACHES = "one automatic marker, one on the head"
KINDS = (
    Kind(
        "Anthropic clear_tool_uses",
        lambda stage: Clearing(stage, {"type": CLEAR_TOOL_USES}),
        _CACHES,
        is_timed=False,
    ),
    Kind(
        "Anthropic clear_tool_uses, at least 20K",
        lambda stage: Clearing(stage, {"type": CLEAR_TOOL_USES, "clear_at_least": _AT_LEAST}),
        _CACHES,
        is_timed=False,
    ),
    Kind("Anthropic compact", Compaction, _CACHES, compacts=True, asks_warm=True, is_timed=False),
)
