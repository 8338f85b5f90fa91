"""Resume a session from its store: its records, and what the last process knew beside them."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal

import msgspec

from everturn.decide.cache_breaks import CacheBreakDetector
from everturn.engine import Conversation, ConversationSettings
from everturn.history.records import Record
from everturn.history.threads import split_threads
from everturn.session.deferred_tools import defer_tools
from everturn.session.hold_memory import HoldMemory
from everturn.session.hold_records import read_holds
from everturn.session.opening import build_preamble
from everturn.session.restore_files import restore_files
from everturn.session.runtime import SessionParts, SessionRuntime
from everturn.session.state_file import SessionState, read_state
from everturn.session.store.protocol import Store
from everturn.session.tools import Tool, index_tools
from everturn.session.transcripts import read_queued_messages
from everturn.view.fragments.recalled import TOOL as RECALL

SessionStart = Literal["auto", "clear", "none"]


def resume_runtime(
    settings: ConversationSettings,
    store: Store,
    parts: SessionParts,
    start: SessionStart,
    *,
    current: Callable[[], SessionRuntime],
    appending: AbstractContextManager[Any],
) -> SessionRuntime:
    """The runtime of a new session, or of one that goes on. The recall tool searches the `current` one. The
    lock `appending` outlives a runtime."""
    holds = read_holds(store.records)
    store.drop_lines()
    found = split_threads(store.records).main
    conversation = _restore_conversation(settings, found.records, read_state(store), parts)
    runtime = SessionRuntime(conversation, store, parts, appending)
    runtime.take_holds(holds)
    if parts.options.recall.enabled:
        from everturn.session.recall.tool import make_recall_tool

        runtime.tools = index_tools((*parts.tools, make_recall_tool(current)))
    for note in found.notes:
        runtime.flaws.append(note.what)
        runtime.remark(note.what)
    runtime.runner.emit_repairs()
    if not store.read_only_reason:
        runtime.remark(restore_files(found.records, store))
    # A session opened for reading runs no SessionStart hooks.
    if not store.read_only_reason and start != "none":
        source = "resume" if found.records else "startup"
        started = runtime.run_hooks("SessionStart", source=source if start == "auto" else start)
        runtime.append_hook_context(started.context)
    return runtime


def _restore_conversation(
    settings: ConversationSettings, records: Sequence[Record], state: SessionState, parts: SessionParts
) -> Conversation:
    """The engine's conversation with these records, and with what the last process knew about it."""
    recall = [Tool(RECALL)] if parts.options.recall.enabled else []
    tools = defer_tools((*parts.tools, *recall), state.deferred_tools or ())
    preamble = build_preamble(parts.system, tools, settings.capabilities)
    conversation = Conversation(
        msgspec.structs.replace(settings, preamble=preamble),
        records,
        detector=CacheBreakDetector(parts.options.cache.breaks, state.baselines),
    )
    conversation.compaction_state.remember(state.breaker, state.refill)
    economy = conversation.economy
    economy.state, economy.decisions = state.economy, state.decisions
    economy.lost_holds = dict(state.lost_holds)
    if parts.options.holds_cache:
        economy.lost_holds |= HoldMemory(parts.options.provider).read(parts.clock())
    if records and settings.transcript:
        conversation.take_queued(read_queued_messages(settings.transcript, records))
    return conversation
