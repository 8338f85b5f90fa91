"""Every number and every list of names of a compaction (CP-9, 13 to 15, 22 to 24, 32).

None of these numbers is written in the logic. The thresholds of a context that fills are in
`measure/thresholds.py`: compaction is not their only reader.
"""

from datetime import timedelta
from typing import Final, Literal

import msgspec

from everturn.measure.tokens import ROUGH
from everturn.measure.tool_table import ToolEntry, ToolTable

# How a summary can be obtained: from the session's notes, by a fork that shares the cached prefix, by a call
# of its own, by the provider's own compaction, or without any model.
Strategy = Literal["notes", "fork", "direct", "provider", "extractive"]
# As users may write them: "extract" is the former name.
GivenStrategy = Literal[Strategy, "extract"]


def to_strategy(name: GivenStrategy) -> Strategy:
    return "extractive" if name == "extract" else name


class CompactSettings(msgspec.Struct, frozen=True, kw_only=True):
    # Whether a compaction may happen at all; whether it happens by itself is `thresholds.auto_compaction`.
    enabled: bool = True
    # Tried in this order; the first that gives an acceptable summary is used.
    strategies: tuple[GivenStrategy, ...] = ("notes", "fork", "direct", "extractive")
    # Another model for the direct strategy; empty for the conversation's own (CP-6).
    summary_model: str = ""
    # The agent runs without a person: after a compaction the model goes on by itself (CP-11).
    autonomous: bool = False

    # The direct call's output cap, and what a summary and its draft are expected to take of it. Recorded
    # summaries have 11,600 characters on average; the draft is about as long again.
    max_output: int = 20_000
    expected_summary: int = 3_000
    # The most tokens that a summary should have; 0 for as many as it needs. A model is asked for no more.
    summary_tokens: int = 3_000
    expected_output: int = 6_000

    # A summary request that is itself too long is repeated this often, each time without its oldest rounds
    # (CP-9). These calls come on top of `calls`.
    retries: int = 3
    drop_share: float = 0.2

    # Calls of a model that one compaction may make for its summary, over all strategies, repairs included;
    # and as many in a row without a summary before models are no longer asked. Our choice: docs/decisions.md.
    calls: int = 3

    # From this share of the context on, what was not sent yet is kept instead of summarized by a fork: less
    # than that, and its own prompt, leave 95% of its input to be read from the cache. Above the second share
    # of the threshold it is summarized all the same, or the context would be full again at once. Our choices.
    unsent_share: float = 0.03
    most_unsent: float = 0.5

    # Restoration (CP-13, CP-15).
    files: int = 5
    file_tokens: int = 5_000
    # What was said last and nobody has answered is kept whole (CP-37). If it does not fit into the window
    # beside a summary, this much of it is shown, head and tail, and no more than this share of the threshold,
    # or a compaction would free too little. Our choices.
    unanswered_tokens: int = 40_000
    most_unanswered: float = 0.25
    # For its sake the reserve for output shrinks to this: an answer of some length must still be possible.
    least_answer: int = 4_000
    files_tokens: int = 50_000
    skill_tokens: int = 5_000
    skills_tokens: int = 25_000

    # Pins (CP-32). One that is longer than a few sentences is an essay, not a standing instruction.
    pin_tokens: int = 2_000
    longest_pin: int = 400

    # The gate (CP-31): fewer words than this beside the headings is a skeleton.
    least_words: int = 12
    # Errors and refusals are a few sentences. A text of more words that mentions one is a summary of it.
    brief_words: int = 60

    # Breakers (CP-22, CP-23). An open one allows one try after this time, or after so many calls of the
    # conversation itself, whichever comes first (CP-39).
    failures: int = 3
    retry_after: timedelta = timedelta(minutes=10)
    retry_calls: int = 20
    refill_turns: int = 3
    refills: int = 3
    culprits: int = 3

    # A compaction ahead of time (CP-24): from this share of the automatic threshold on, and after a deferral
    # not again before the context has grown by so much.
    cold_share: float = 0.7
    defer_tokens: int = 10_000

    # Names on a receipt before it says "and n more" (CP-34).
    names: int = 5

    # Sources that are themselves part of a compaction (CP-20).
    internal_sources: tuple[str, ...] = ("compact", "session_memory")
    # Loaded into the system prompt anyway: restoring them would show them twice.
    memory_files: tuple[str, ...] = ("CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", "GEMINI.md", "MEMORY.md")
    # Restored whole, as the plan; patterns of whole paths.
    plan_files: tuple[str, ...] = ("*/.claude/plans/*", ".claude/plans/*")
    # Attachments that a compaction writes anew, or that are announced once per session: none of them needs
    # summarizing.
    restorable: tuple[str, ...] = (
        "skill_listing", "deferred_tools_delta", "agent_listing_delta", "mcp_instructions_delta",
        "todo_reminder", "task_reminder", "plan_mode", "restored_*", "compaction_*",
    )  # fmt: skip

    # Tools that write a whole list of tasks, load a skill, start an agent, fetch the result of one: names or
    # patterns in addition to `measure/tool_table.py`.
    todo_tools: tuple[str, ...] = ()
    skill_tools: tuple[str, ...] = ()
    agent_tools: tuple[str, ...] = ()
    collecting_tools: tuple[str, ...] = ()

    def add_tools(self, tools: ToolTable) -> ToolTable:
        """The table with the tools that these settings name."""
        return tools.extended(
            [
                ToolEntry(names=self.todo_tools, does="replaces_tasks"),
                ToolEntry(names=self.skill_tools, does="uses_skill"),
                ToolEntry(names=self.agent_tools, does="runs_agent"),
                ToolEntry(names=self.collecting_tools, does="collects_agent"),
            ]
        )

    @property
    def read_characters(self) -> int:
        """How much of a file is worth reading: what its budget can hold at the default rate."""
        return int(self.file_tokens * ROUGH.characters)

    def max_unanswered(self, threshold: int) -> int:
        """Tokens of the newest message that are shown as text, at this automatic threshold."""
        return min(self.unanswered_tokens, int(self.most_unanswered * threshold))


DEFAULTS: Final = CompactSettings()
