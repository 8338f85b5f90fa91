"""The seeds of trials that have failed once, by kind. `make test` runs them beside its fixed range."""

from typing import Final

# A compaction without a summary kept a segment: what continued that segment lost what came before it.
UNFINISHED_SEGMENT: Final = (1022414, 1026614, 7732999)
# A conversation of blank messages was compacted: the summary request had no messages.
BLANK_CONVERSATION: Final = (7736189, 7746156)
# A write that failed at its last byte, the newline, after the scene: the record is there, and may be.
UNFINISHED_LINE: Final = (988051, 988140, 990617)
# A damaged format number closed the session for good, as the work of a newer version.
DAMAGED_FORMAT: Final = (41007230, 41012755, 20261609)
# Two flipped bits, one of them in the tag: the checksum was not looked at.
DAMAGED_TAG: Final = (41029813,)
# Only the last line break was missing, and it was called the end of the file.
MISSING_LINE_BREAK: Final = (41027267, 41034378)
# A field that does not fit, and behind it a control character: the file could not be opened.
DAMAGED_TWICE: Final = (93000008213,)
# A fork ended in a tool loop from before thinking was switched on, and the API refused it.
LOOP_WITHOUT_THINKING: Final = (923944361454,)
# A reply that the caller had begun counted as the answer, and its question was summarized.
BEGUN_REPLY: Final = (1209,)
# (In the judge) A restart with other tools: nothing is known of those that the last process had sent.
OTHER_TOOLS_AFTER_RESTART: Final = (81000000110,)
# A rewind to what an earlier compaction had kept undid that compaction, under a later one from a message on.
REWIND_TO_KEPT: Final = (51000001627,)
# The same where the compaction had been undone on a branch that was left since.
REWIND_UNDER_UNDONE: Final = (401000014032,)
# (In the judge) A rewind to the last words undoes no undo that followed them.
REWIND_TO_LAST_WORDS: Final = (40084730447, 40084730592)
# (In the judge) A rewind to before an undo: the compaction is in force again, for its kept words too.
REWIND_BEFORE_UNDO: Final = (397716981127,)
# A compaction kept a reply last, and a later one summarized its summary: a rewind to the reply undid both.
REWIND_BEHIND_TWO: Final = (816541771764,)
# The walks that found these returned to no branch, and are repeated without it.
WITHOUT_RETURNS: Final = (
    *REWIND_TO_KEPT, *REWIND_UNDER_UNDONE, *REWIND_TO_LAST_WORDS, *REWIND_BEFORE_UNDO, *REWIND_BEHIND_TWO,
)  # fmt: skip
# What was kept ended with a hook's words, behind a compaction that was undone.
REWIND_BEHIND_UNDONE: Final = (77032425,)
# A session whose file held only a line that was cut off had no branches, and said that it is no session.
BRANCHES_OF_A_TORN_LINE: Final = (77031296,)
# An undo after a rewind, with nothing said: it counted on the branch that was returned to.
UNDO_ON_A_BRANCH: Final = (77031314,)
# A session went on beside its own rewind, behind a hook's words (`test_sabotage.py` plants it again).
REWIND_PASSED_BY: Final = (75,)
# (In the judge) `mypy -p NAME` was called dangerous, because `pytest -p NAME` is.
PACKAGE_OF_MYPY: Final = (923944366220,)

# The walks that found these pinned nothing.
WITHOUT_PINS: Final = (
    *WITHOUT_RETURNS, *REWIND_BEHIND_UNDONE, *BRANCHES_OF_A_TORN_LINE, *UNDO_ON_A_BRANCH, *REWIND_PASSED_BY,
)  # fmt: skip
# An undo, and a pin beside an undone compaction, at the end of a branch that was returned to: both were left.
DONE_AT_THE_END: Final = (1002, 1123, 1393)

# The walks that found these left no branch right behind a compaction of all that was said.
WITHOUT_COMPACTED_ENDS: Final = (*WITHOUT_PINS, *DONE_AT_THE_END)
# A compaction was the last thing on a branch. It did not hold at the return to it, nor did a pin behind it.
COMPACTED_AT_THE_END: Final = (581097126037, 581097126045, 581097126082)

STEPS: Final = (*WITHOUT_COMPACTED_ENDS, *COMPACTED_AT_THE_END)
FOUND: Final = {
    "conversations": (*UNFINISHED_SEGMENT, *BLANK_CONVERSATION),
    "steps": STEPS,
    "disk-failures": UNFINISHED_LINE,
    "damage": (*DAMAGED_FORMAT, *DAMAGED_TAG, *MISSING_LINE_BREAK, *DAMAGED_TWICE),
    "callers": (*LOOP_WITHOUT_THINKING, *BEGUN_REPLY, *OTHER_TOOLS_AFTER_RESTART),
    "hostile-commands": PACKAGE_OF_MYPY,
}
