"""A provider that judges and answers by chance, all in this process.

The judge is the twin's own (`twin/parse`, `twin/validate`, `twin/signatures`), without its cache and its
bill, which would take most of the time. Answers are drawn from everything that a provider has been seen to
do, errors in place of summaries included.
"""

import random
from collections.abc import Sequence
from typing import Any

import msgspec

from everturn.decide.effects import (
    AskModel,
    Emit,
    FileRead,
    HookOutcome,
    ModelAnswer,
    ModelFailure,
    ReadFiles,
    RunHooks,
    WriteFile,
)
from everturn.errors import StoreError
from everturn.history.blocks import block_from_fields
from everturn.history.records import Usage
from everturn.session.upstream import RawResponse, UpstreamError
from everturn.twin.options import TwinOptions
from everturn.twin.parse import parse_request
from everturn.twin.signatures import check_thinking
from everturn.twin.validate import validate
from everturn.twin.values import ApiError

Fields = dict[str, Any]

_encode = msgspec.json.Encoder().encode
# Signatures by chance are nobody's; what real ones seal is held by `tests/engine/test_random_sessions.py`.
OPTIONS = TwinOptions(foreign_signatures="accept", extensions=frozenset({"cache_edits"}))
HEADERS = {"x-api-key": "trial", "anthropic-version": "2026-10-21"}
# In everything that an error says; no summary may ever hold it.
MARK = "E-529"
NO_SUMMARY = MARK.encode()
SUMMARY = (
    "<summary>1. The parser was fixed in src/parse.py and its tests pass; "
    "the port is 8080, and nothing else is open.</summary>"
)
TOO_LONG = "prompt is too long: 210000 tokens > 200000 maximum"
# A kind that this judge does not know, with the fields of one that it knows.
FUTURE = b'{"type":"from_the_future",'


class Invalid(AssertionError):
    """A request that the API would have refused."""


def judge(body: bytes, betas: Sequence[str]) -> None:
    """Raises `Invalid` where the API would refuse. A kind of block that is newer than the judge came from an
    API that knows it: it is taken for a text."""
    known = body.replace(FUTURE, b'{"type":"text",') if FUTURE in body else body
    headers = {**HEADERS, "anthropic-beta": ",".join(betas)} if betas else HEADERS
    try:
        request = parse_request("messages", headers, known, workspace="trial")
        validate(request, OPTIONS)
        check_thinking(request, OPTIONS)
    except ApiError as refusal:
        raise Invalid(refusal.message) from None


class Provider:
    """Answers what a session asks of the model and of the world. Everything it was given is counted."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.requests = 0
        self.replies = 0
        self.faults = 0
        self.calls: list[str] = []
        self.files: dict[str, str] = {}

    # ── the conversation's own calls ─────────────────────────────────────────────────────────────

    def send(self, body: bytes, betas: Sequence[str]) -> RawResponse:
        self._judged(body, betas)
        chance = self.rng.random()
        if chance < 0.06:
            self.faults += 1
            raise UpstreamError(400, "invalid_request_error", TOO_LONG)
        if chance < 0.10:
            self.faults += 1
            raise UpstreamError(529, "overloaded_error", f"{MARK} Overloaded")
        return RawResponse(_encode(self._reply(len(body))))

    def _judged(self, body: bytes, betas: Sequence[str]) -> None:
        self.requests += 1
        judge(body, betas)

    def _reply(self, size: int) -> Fields:
        self.replies += 1
        content = self._content()
        self.calls = [block["id"] for block in content if block["type"] == "tool_use"]
        usage = {"input_tokens": size // 3, "output_tokens": 50}
        return {
            "id": f"msg_r{self.replies}",
            "type": "message",
            "role": "assistant",
            "model": "claude-opus-4-6",
            "content": content,
            "stop_reason": "tool_use" if self.calls else "end_turn",
            "usage": usage,
        }

    def _content(self) -> list[Fields]:
        content: list[Fields] = []
        if self.rng.random() < 0.4:
            content.append({"type": "thinking", "thinking": f"hm {self.replies}", "signature": "sig"})
        if self.rng.random() < 0.6:
            content.append({"type": "text", "text": f"Answer {self.replies}. " + "It is done. " * 9})
        for at in range(self.rng.choice((0, 0, 1, 2, 4))):
            name = f"toolu_r{self.replies}_{at}"
            given = {"file_path": f"src/file{at}.py"}
            content.append({"type": "tool_use", "id": name, "name": "Read", "input": given})
        return content or [{"type": "text", "text": "Yes."}]

    # ── the world of a flow ──────────────────────────────────────────────────────────────────────

    def ask_model(self, effect: AskModel) -> ModelAnswer | ModelFailure:
        self._judged(effect.request.to_bytes(), effect.betas)
        chance = self.rng.random()
        if chance < 0.55:
            return self._summary(effect)
        self.faults += 1
        if chance < 0.7:
            kind = self.rng.choice(("too_long", "api_error", "refused", "timeout", "cancelled"))
            return ModelFailure(kind, f"{MARK} {kind}")
        return self._no_summary()

    def _summary(self, effect: AskModel) -> ModelAnswer:
        fields: Fields = {"type": "text", "text": SUMMARY}
        if effect.strategy == "provider":
            fields = {"type": "compaction", "content": f"Kept by the API {self.requests}: {SUMMARY}"}
        return ModelAnswer((block_from_fields(fields),), "end_turn", Usage(900, 0, 0, 60))

    def _no_summary(self) -> ModelAnswer:
        """An answer that is none: an error in words, cut off, empty, a call, a refusal."""
        text = {"type": "text", "text": f"API Error: 529 {MARK} Overloaded"}
        call = {"type": "tool_use", "id": "toolu_s", "name": "Read", "input": {"why": MARK}}
        blocks, stop = self.rng.choice(
            (([text], "end_turn"), ([], "end_turn"), ([call], "tool_use"), ([text], "refusal"))
        )
        return ModelAnswer(tuple(map(block_from_fields, blocks)), stop, Usage(900, 0, 0, 9))

    def write_file(self, effect: WriteFile) -> str:
        if self.rng.random() < 0.05:
            self.faults += 1
            raise StoreError(f"{effect.name} could not be written: No space left on device.")
        path = f"/results/{effect.name}"
        self.files[path] = effect.text
        return path

    def read_files(self, effect: ReadFiles) -> tuple[FileRead, ...]:
        return tuple(
            FileRead(path, text=f"{path} as it is now\n" * self.rng.randrange(1, 9))
            if self.rng.random() < 0.7
            else FileRead(path, problem="it could not be read")
            for path in effect.paths
        )

    def run_hooks(self, effect: RunHooks) -> HookOutcome:
        chance = self.rng.random()
        if chance < 0.05:
            return HookOutcome(blocked="not now")
        return HookOutcome(context=("The build is red.",)) if chance < 0.2 else HookOutcome()

    def emit(self, effect: Emit) -> None:
        """Nobody listens."""
