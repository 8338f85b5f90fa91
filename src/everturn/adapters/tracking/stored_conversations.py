"""Finds the conversation of a request among the transcripts of a folder, after a restart."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from everturn.adapters.tracking.caller_request import CallerRequest
from everturn.adapters.tracking.chain import common_prefix_length, is_caller_message
from everturn.adapters.tracking.conversation import CallerList, read_caller_list
from everturn.adapters.tracking.respelling import align, is_identifying, split_segments
from everturn.adapters.tracking.transcript_folder import TranscriptFile, TranscriptFolder
from everturn.history.records import Record


class StoredMatch(NamedTuple):
    """A transcript, the part of the caller's list that it has, and the records before `cut` that are it."""

    transcript: TranscriptFile
    shared: CallerList
    cut: int
    is_whole: bool


def find_stored(
    folder: TranscriptFolder, request: CallerRequest, open_paths: Collection[str], known: int
) -> StoredMatch | None:
    """The transcript that has most of the request, if that is more than `known` links. The others are
    closed."""
    best: StoredMatch | None = None
    for transcript in folder.candidates(request, open_paths):
        found = _match(transcript, request)
        if found is not None and len(found.shared.chain) > (len(best.shared.chain) if best else known):
            best, found = found, best
        loser = found.transcript if found else transcript
        if best is None or loser is not best.transcript:
            loser.close()
    return best


def _match(transcript: TranscriptFile, request: CallerRequest) -> StoredMatch | None:
    """What a transcript has of the request, if that includes a reply that was recorded in it."""
    records = transcript.records
    exact = _match_exactly(transcript, records, request)
    if exact is not None and exact.is_whole:
        return exact
    respelled = _match_respelled(transcript, records, request)
    if respelled is None or (exact and len(exact.shared.chain) >= len(respelled.shared.chain)):
        return exact
    return respelled


def _match_exactly(
    transcript: TranscriptFile, records: Sequence[Record], request: CallerRequest
) -> StoredMatch | None:
    chain, positions = read_caller_list(records)
    links = common_prefix_length(chain, request.chain)
    is_whole = links == len(chain)
    while 0 < links < len(chain) and positions[links] == positions[links - 1]:
        links -= 1
    if not any(records[at].message_id for at in positions[:links]):
        return None
    cut = len(records) if is_whole else positions[links]
    return StoredMatch(transcript, CallerList(chain[:links], positions[:links]), cut, is_whole)


def _match_respelled(
    transcript: TranscriptFile, records: Sequence[Record], request: CallerRequest
) -> StoredMatch | None:
    """The same where the caller has left out parts of what was sent. It is not known any more which messages
    had come back unchanged, so every one may differ."""
    if request.known:
        return None
    said = [(at, record) for at, record in enumerate(records) if is_caller_message(record)]
    segments = split_segments(said)
    found = align(segments, request, 0)
    replies = [
        record for segment in segments[: found.segments] if segment.is_reply for _, record in segment.records
    ]
    if not found.is_respelled or not is_identifying(replies):
        return None
    is_whole = found.segments == len(segments)
    cut = len(records) if is_whole else segments[found.segments].records[0][0]
    shared = CallerList(list(request.chain[: found.links]), found.records)
    return StoredMatch(transcript, shared, cut, is_whole)
