"""What a compaction costs beside the model's answer, which is given at once: everturn and LangChain.

From the decision to compact to the messages that replace the conversation, with the request to the summarizer
built and its answer taken in. The two do not do the same: everturn sends the whole conversation, which the
provider has cached, plans what comes back and writes a receipt; LangChain trims what it sends to 4,000 tokens
and keeps the last 20 messages. So there is no goal here, only the numbers.
"""

import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from contestants import LangChainMessages, setting_for, time_of
from session import SIZES, Session, session

from everturn.decide.compact.chain import chain_of
from everturn.decide.compact.flow import compaction
from everturn.decide.compact.ground import Ground
from everturn.decide.compact.settings import DEFAULTS
from everturn.decide.compact.values import Asked, Compaction
from everturn.decide.effects import Answer, AskModel, Effect, FileRead, HookOutcome, ReadFiles, RunHooks
from everturn.decide.summary.settings import SummarySettings
from everturn.engine import Conversation
from everturn.history.blocks import text_block
from everturn.history.records import Usage
from everturn.measure.thresholds import limits
from everturn.measure.tokens import Counts
from everturn.session.live import perform

RUNS = 7
SECTIONS = ("request", "concepts", "files", "errors", "problems", "messages", "tasks", "work", "next")
LINES = (f"{at}. {name}: what was said about it, in a line." for at, name in enumerate(SECTIONS, start=1))
SUMMARY = "\n".join(LINES)


def everturn(told: Session) -> Callable[[], str]:
    ground, ids = _ground(told), (f"compaction-{number}" for number in count())

    def run() -> str:
        flow = compaction(Asked(trigger="manual"), ground, now=time_of(told.before), new_id=ids.__next__)
        answer, asked = None, 0
        while True:
            try:
                effect = flow.send(answer)
            except StopIteration as done:
                made = done.value
                break
            asked = len(effect.request.messages) if isinstance(effect, AskModel) else asked
            answer = _answer(effect)
        if not isinstance(made, Compaction):
            raise SystemExit(f"everturn did not compact: {made.why}")
        return f"{asked:,} messages to the summarizer, {len(made.records)} records in their place"

    return run


def _ground(told: Session) -> Ground:
    setting = setting_for("claude-code")
    conversation = Conversation(setting, told.before)
    ids = (f"bench-{number}" for number in count())
    with TemporaryDirectory() as folder:
        turn = perform(conversation.turn(time_of(told.before), ids.__next__), Path(folder))
    view, marks = conversation.log.view, limits(setting.model.window, setting.model.max_output)
    return Ground(
        view=view,
        size=turn.size.tokens,
        limits=marks,
        model=setting.model,
        capabilities=setting.capabilities,
        counts=Counts(),
        chain=chain_of(view, threshold=marks.auto, source="main"),
        safe=turn.safe,
        ways=("fork",),
        settings=DEFAULTS,
        summary=SummarySettings(),
        transcript="session.jsonl",
    )


def _answer(effect: Effect) -> Any:
    """A world without hooks and files, and a model that answers at once."""
    if isinstance(effect, AskModel):
        said = text_block(f"<summary>\n{SUMMARY}\n</summary>")
        return Answer((said,), "end_turn", Usage(output_tokens=200))
    if isinstance(effect, ReadFiles):
        return tuple(FileRead(path, problem="there is no disk here") for path in effect.paths)
    return HookOutcome() if isinstance(effect, RunHooks) else None


def langchain(told: Session) -> Callable[[], str]:
    from langchain.agents.middleware import SummarizationMiddleware
    from langchain_core.language_models.fake_chat_models import FakeListChatModel

    said = LangChainMessages(told).messages(0)
    # Below the smallest size, so that every call summarizes.
    middleware = SummarizationMiddleware(FakeListChatModel(responses=[SUMMARY]), trigger=("tokens", 10_000))

    def run() -> str:
        update: Any = middleware.before_model({"messages": said}, None)  # type: ignore[arg-type]
        return f"{len(said):,} messages before, {len(update['messages']) - 1} after"

    return run


def fastest(run: Callable[[], str]) -> tuple[float, str]:
    found: list[float] = []
    said = ""
    for _ in range(RUNS):
        started = time.perf_counter()
        said = run()
        found.append(time.perf_counter() - started)
    return min(found), said


def main() -> None:
    print(f"\na compaction's own work, fastest of {RUNS}", flush=True)
    for size in SIZES:
        told = session(size)
        for name, opened in (("everturn", everturn), ("LangChain Summarization", langchain)):
            try:
                seconds, said = fastest(opened(told))
            except ImportError as reason:
                print(f"  {name:24}{size:>11,}  not measured: {reason}", flush=True)
                continue
            print(f"  {name:24}{size:>11,} tokens{seconds * 1e3:9.1f} ms  ({said})", flush=True)


if __name__ == "__main__":
    main()
