"""Finds the conversation of a request among the transcripts of a folder, after a restart."""

from collections.abc import Collection, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from everturn.adapters.tracking.caller_list import CallerList, KnownList, first_in_view, read_caller_list
from everturn.adapters.tracking.caller_request import CallerRequest, KnownPrefix
from everturn.adapters.tracking.chain import common_prefix_length, is_caller_message
from everturn.adapters.tracking.kept_preambles import read_preamble
from everturn.adapters.tracking.respelling import Segment, align, count_turns, is_identifying, split_segments
from everturn.adapters.tracking.transcript_folder import TranscriptFile, Transcripts
from everturn.history.log import Log
from everturn.history.records import Record
from everturn.session.state_file import SettledList, read_state


class StoredMatch(NamedTuple):
    """A transcript, the part of the caller's list that it has, and the records before `cut` that are it."""

    transcript: TranscriptFile
    shared: CallerList
    cut: int
    is_whole: bool


def find_stored(
    transcripts: Transcripts, request: CallerRequest, open_paths: Collection[str], known: int
) -> StoredMatch | None:
    """The transcript that has most of the request, if that is more than `known` links. The others are
    closed."""
    best: StoredMatch | None = None
    with ExitStack() as opened:
        for transcript in transcripts.candidates(request, open_paths):
            # Whatever fails, a lease that nobody uses must not be renewed for ever.
            opened.callback(transcript.close)
            found = _match(transcript, request)
            if found is not None and len(found.shared.chain) > (len(best.shared.chain) if best else known):
                best, found = found, best
            loser = found.transcript if found else transcript
            if best is None or loser is not best.transcript:
                loser.close()
        opened.pop_all()
    return best


def find_stored_prefix(transcripts: Transcripts, message_id: str) -> KnownPrefix | None:
    """What is stored of a conversation up to and including a reply."""
    transcript = transcripts.find_reply(message_id)
    if transcript is None or transcript.store is None:
        return None
    try:
        known = KnownList(transcript.records)
        links = known.replies.get(message_id)
        if links is None:
            return None
        kept = read_preamble(transcript.store)
        return KnownPrefix(tuple(known.chain[:links]), kept.preamble, kept.digest)
    finally:
        transcript.close()


def _match(transcript: TranscriptFile, request: CallerRequest) -> StoredMatch | None:
    """What a transcript has of the request, if that includes a reply that was recorded in it."""
    records = transcript.records
    exact = _match_exactly(transcript, records, request)
    if exact is not None and exact.is_whole:
        return exact
    respelled = _match_respelled(transcript, records, request)
    found = [each for each in (exact, respelled, _match_summarized(transcript, records, request)) if each]
    return max(found, key=lambda each: len(each.shared.chain), default=None)


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


def _has_settled(request: CallerRequest, settled: SettledList, links: int) -> bool:
    """Whether the request begins with all that had come back."""
    if not 0 < settled.links <= min(links, len(request.chain)):
        return False
    return request.chain[settled.links - 1].hex() == settled.link


def _match_respelled(
    transcript: TranscriptFile, records: Sequence[Record], request: CallerRequest
) -> StoredMatch | None:
    """The same where the caller has left out parts of what was sent: of messages that had come back without
    them, and of the newest answered turn if this is the next request. Whatever else is missing, the caller
    has edited or trimmed."""
    if request.known or transcript.store is None:
        return None
    settled = read_state(transcript.store).settled
    said = [(at, record) for at, record in enumerate(records) if is_caller_message(record)]
    segments = split_segments(said)
    found = align(segments, request, 0)
    is_known = _has_settled(request, settled, found.links)
    is_next = found.segments == len(segments) and found.links >= request.last_answered_reply
    # Of a first turn, nothing can have come back yet.
    if not found.is_respelled or not (is_known or (is_next and count_turns(segments) <= 1)):
        return None
    done = found.segments if is_next else _segments_before(segments, found.records[settled.links - 1])
    links = found.links if is_next else settled.links
    replies = [record for segment in segments[:done] if segment.is_reply for _, record in segment.records]
    if not is_identifying(replies):
        return None
    cut = len(records) if is_next else segments[done].records[0][0]
    shared = CallerList(list(request.chain[:links]), found.records[:links])
    return StoredMatch(transcript, shared, cut, is_next)


def _match_summarized(
    transcript: TranscriptFile, records: Sequence[Record], request: CallerRequest
) -> StoredMatch | None:
    """The same where the caller has left out parts of what is summarized."""
    summarized = first_in_view(Log(records))
    found = KnownList(records).align_summarized(request, summarized) if summarized else None
    return found and StoredMatch(transcript, found.shared, found.cut, found.is_whole(records))


def _segments_before(segments: Sequence[Segment], position: int) -> int:
    """How many segments there are up to the one with the record at this position."""
    return next(
        done for done, segment in enumerate(segments, 1) if position in [at for at, _ in segment.records]
    )
