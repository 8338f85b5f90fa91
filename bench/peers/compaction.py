"""What a compaction costs beside the model's answer, which is given at once: everturn and LangChain.

From the decision to compact to the messages that replace the conversation, with the request to the summarizer
built and its answer taken in. The two do not do the same: everturn sends the whole conversation, which the
provider has cached, plans what comes back and writes a receipt; LangChain trims what it sends to 4,000 tokens
and keeps the last 20 messages. So there is no goal here, only the numbers.
"""

import time
from collections.abc import Callable
from itertools import count
from typing import Any

from contestants import LangChainMessages, setting_for, time_of
from session import SIZES, Session, session

from everturn.decide.compact.values import Asked, Compaction
from everturn.decide.effects import (
    Answer,
    AskModel,
    Emit,
    Failure,
    FileRead,
    HookOutcome,
    ReadFiles,
    RunHooks,
    WriteFile,
)
from everturn.engine import Conversation
from everturn.history.blocks import text_block
from everturn.history.records import Usage
from everturn.session.drivers import drive

RUNS = 7
SECTIONS = ("request", "concepts", "files", "errors", "problems", "messages", "tasks", "work", "next")
LINES = (f"{at}. {name}: what was said about it, in a line." for at, name in enumerate(SECTIONS, start=1))
SUMMARY = "\n".join(LINES)

# Prepared anew for each run, and then timed: says in a few words what came of it.
Prepared = Callable[[], str]


class PromptWorld:
    """A world without hooks and files, and a model that answers at once."""

    def __init__(self) -> None:
        self.asked = 0

    def ask_model(self, effect: AskModel) -> Answer | Failure:
        self.asked = len(effect.request.messages)
        said = text_block(f"<summary>\n{SUMMARY}\n</summary>")
        return Answer((said,), "end_turn", Usage(output_tokens=200))

    def read_files(self, effect: ReadFiles) -> tuple[FileRead, ...]:
        return tuple(FileRead(path, problem="there is no disk here") for path in effect.paths)

    def write_file(self, effect: WriteFile) -> str:
        return effect.name

    def run_hooks(self, effect: RunHooks) -> HookOutcome:
        return HookOutcome()

    def emit(self, effect: Emit) -> None:
        pass


def everturn(told: Session) -> Prepared:
    conversation, world = Conversation(setting_for("claude-code"), told.before), PromptWorld()
    now = time_of(told.before)
    ids = (f"bench-{number}" for number in count())
    drive(conversation.turn(now, ids.__next__), world)

    def run() -> str:
        made = drive(conversation.compact(Asked(trigger="manual"), now, ids.__next__), world)
        if not isinstance(made, Compaction):
            raise SystemExit(f"everturn did not compact: {made.why}")
        return f"{world.asked:,} messages to the summarizer, {len(made.records)} records in their place"

    return run


def langchain(told: Session) -> Prepared:
    from langchain.agents.middleware import SummarizationMiddleware
    from langchain_core.language_models.fake_chat_models import FakeListChatModel

    said = LangChainMessages(told).messages(0)
    # Below the smallest size, so that every call summarizes.
    middleware = SummarizationMiddleware(FakeListChatModel(responses=[SUMMARY]), trigger=("tokens", 10_000))

    def run() -> str:
        update: Any = middleware.before_model({"messages": said}, None)  # type: ignore[arg-type]
        return f"{len(said):,} messages before, {len(update['messages']) - 1} after"

    return run


def fastest(prepare: Callable[[Session], Prepared], told: Session) -> tuple[float, str]:
    found: list[float] = []
    said = ""
    for _ in range(RUNS):
        run = prepare(told)
        started = time.perf_counter()
        said = run()
        found.append(time.perf_counter() - started)
    return min(found), said


def main() -> None:
    print(f"\na compaction's own work, fastest of {RUNS}", flush=True)
    for size in SIZES:
        told = session(size)
        for name, prepare in (("everturn", everturn), ("LangChain Summarization", langchain)):
            try:
                seconds, said = fastest(prepare, told)
            except ImportError as reason:
                print(f"  {name:24}{size:>11,}  not measured: {reason}", flush=True)
                continue
            print(f"  {name:24}{size:>11,} tokens{seconds * 1e3:9.1f} ms  ({said})", flush=True)


if __name__ == "__main__":
    main()
