"""What a session may forget of the lines that it read: their bytes, and nothing that it knows of them."""

import msgspec

from everturn.wire.claude_code_reader import Transcript, parse_session_file
from everturn.wire.claude_code_writer import encode_record


def test_recorded_records_without_their_bytes_are_read_again_as_they_were(transcripts: dict[str, Transcript]):
    records = [record for transcript in transcripts.values() for record in transcript.records]
    bare = [msgspec.structs.replace(record, raw=b"") for record in records]
    again = parse_session_file(b"\n".join(map(encode_record, bare))).records
    assert [msgspec.structs.replace(record, raw=b"") for record in again] == bare
    assert len(bare) > 10_000
