"""Edits that a request needs because of what the API accepts, and of what its cache still holds.

Thinking that may not be sent, a tool loop without its thinking, deletions in a cache that is gone: each
function says which edit is due, or None. `conversation.py` and `compactor.py` append them before they send.
"""

from datetime import datetime

from everturn.decide.micro.cache_edit_state import CacheEditState, expire_deletions
from everturn.engine.conversation_state import ConversationState
from everturn.engine.values import ConversationSettings
from everturn.history.edits import CacheDeletionsEnded, Edit, ThinkingDropped, ToldAsText
from everturn.view.cache_key import thinking_mode
from everturn.view.key_parameters import KeyParameters
from everturn.view.tool_loop import demands_thinking, unsendable_calls


def end_deletions(state: ConversationState, settings: ConversationSettings, now: datetime) -> Edit | None:
    """Deletions exist in the provider's cache; once that has certainly expired, or the last usage shows that
    it is gone, they are gone too (MC-12, MC-20).
    """
    tracker = state.tracker
    if tracker.is_new and tracker.flattener.deleted:
        tracker.cached = CacheEditState()
        return CacheDeletionsEnded("the messages that contained them were replaced")
    # Removing their blocks is an edit too: if it would invalidate the thinking of a tool loop, it waits.
    waits = settings.model.binds_thinking and tracker.flattener.in_tool_loop
    idle = state.cache.seconds_idle_beyond_ttl(settings, now)
    if (idle is None and not state.lost_deletions) or not tracker.cached.pinned or waits:
        return None
    why = "the last request read nothing from the cache that they were made in"
    if idle is not None:
        why = f"idle for {idle:.0f} s, longer than the cache lifetime"
    state.lost_deletions = False
    tracker.cached, edit = expire_deletions(tracker.cached, why=why)
    return edit


def drop_thinking(
    state: ConversationState,
    settings: ConversationSettings,
    before: ConversationSettings | None,
    now: datetime,
) -> ThinkingDropped | None:
    """Drop thinking that cannot be sent, and old thinking if the cache is cold: everything is written again
    then, and need not include it.

    The API could do that itself (MC-13), but only while every request asks for it; our own edit is made once
    and stays.
    """
    tracker, declarative = state.tracker, settings.options.micro.declarative
    last_use = state.last_use(now)
    is_cold = last_use is not None and now - last_use > declarative.idle
    cold = "the cache is cold" if is_cold and settings.options.declares and declarative.thinking else ""
    return tracker.thinking.drop(
        settings,
        before,
        cold=cold,
        keep_turns=declarative.thinking_turns,
        in_loop=tracker.flattener.in_tool_loop and not _is_stripped(state, settings),
    )


def _is_stripped(state: ConversationState, settings: ConversationSettings) -> bool:
    """Whether the model is not shown the thinking of the running tool loop, and the API does not demand it
    either: the results come with a new prompt.
    """
    mode = thinking_mode(settings.model, settings.parameters)
    is_demanded = settings.model.keeps_thinking or mode == "enabled"
    return not is_demanded and state.tracker.flattener.ends_in_prompt


def tell_unsendable(
    state: ConversationState, settings: ConversationSettings, parameters: KeyParameters
) -> Edit | None:
    """A tool loop that lost its thinking to a compaction cannot be sent as it is (CP-38). What a caller asks
    for and we never changed is the caller's own; but we join its messages, and a question of its own behind
    the results ended the loop."""
    tracker, mode = state.tracker, thinking_mode(settings.model, parameters)
    is_ours = settings.decides == "engine" or state.log.view.boundary is not None
    may_tell = is_ours or tracker.flattener.ends_in_prompt
    if not may_tell or not demands_thinking(mode) or not tracker.flattener.in_tool_loop:
        return None
    calls = unsendable_calls(tracker.messages(settings.preamble, settings.costs), mode)
    if not calls:
        return None
    return ToldAsText(calls, f"with thinking {mode}, the API refuses a tool loop without thinking")
