from peers.listening import Listener

from everturn.history.blocks import block_from_fields, result_block, text_block
from everturn.history.records import Record

ASKED = "Never touch the folder vendor/legacy, and rename parse_header to read_header in src/wire/headers.py."
FAILED = "FAILED tests/wire/test_headers.py::test_empty - ValueError: no header in an empty message"
SECRET = "The password of the staging machine is in ops/secrets/staging.env and nowhere else."


def listener() -> Listener:
    call = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "pytest tests/wire"}}
    found = Listener()
    found.tell(
        [
            Record(kind="user", uuid="u1", blocks=(text_block(ASKED),)),
            Record(kind="assistant", uuid="a1", blocks=(block_from_fields(call),)),
            Record(kind="user", uuid="u2", blocks=(result_block("c1", FAILED + "\n" + "x1 = 1\n" * 400),)),
            Record(kind="user", uuid="u3", blocks=(text_block(SECRET),)),
        ]
    )
    return found


def test_the_summary_knows_only_what_the_request_shows() -> None:
    written = listener().write(f"Summarize: <user>{ASKED}</user>")
    assert "vendor/legacy" in written
    assert "staging" not in written


def test_a_transcript_that_is_quoted_as_json_is_understood() -> None:
    heard = listener()
    quoted = ASKED.replace(" ", "\\n")
    assert "vendor/legacy" in heard.write(f'[{{"role": "user", "content": "{quoted}"}}]')


def test_of_a_cut_result_the_beginning_counts() -> None:
    written = listener().write(f"pytest tests/wire\nTool: {FAILED}\nx1 = 1 [...]")
    assert "no header in an empty message" in written


def test_an_earlier_summary_is_carried_on_where_it_is_shown() -> None:
    heard = listener()
    first = heard.write(ASKED)
    assert "vendor/legacy" in heard.write(f"<previous>{first}</previous> {SECRET}")
    assert "vendor/legacy" not in heard.write(SECRET)


def test_every_request_and_its_answer_are_kept_for_the_bill() -> None:
    heard = listener()
    text = heard.write(ASKED)
    assert heard.asked == [(ASKED, text)]
