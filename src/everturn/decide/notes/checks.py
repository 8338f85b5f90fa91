"""Whether the notes in a file may be used for this conversation (SM-5, SM-6).

The file is beside the transcript, where a copy, a restored backup or a rewind can leave notes of something
else. Their words would be the summary, and the words that they do not cover would be dropped.
"""

from collections.abc import Iterable

from everturn.decide.notes.document import Notes, update_problems
from everturn.history.records import Record


def find_notes_problem(notes: Notes, records: Iterable[Record], session: str) -> str:
    """Why these notes are not notes of this conversation; "" if they are. The words below the headings may
    have been changed by a person, so they are not compared with anything."""
    state = notes.state
    if notes.problem:
        return notes.problem
    if not state.covers:
        return "it does not say which record the notes cover"
    known = tuple(records)
    # A transcript can have records of several ids, if it was continued under another one.
    if state.session and state.session not in {session, *(record.session for record in known)}:
        return f"it belongs to the session {state.session!r}"
    if all(record.uuid != state.covers for record in known):
        return (
            f"the last record that the notes cover, {state.covers!r}, is not in this conversation; "
            "it was taken back, or the notes belong to another session"
        )
    first, *others = update_problems("", notes.body) or ("",)
    return f"{first}, and {len(others)} more of this kind" if others else first
