import base64
import os

import pytest

from everturn.chat.tools.files.read import MAX_IMAGE_BYTES, MAX_LINE_CHARACTERS, MAX_LINES, MAX_TOKENS
from everturn.measure.tokens import rough

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def test_lines_come_with_their_numbers(hands):
    hands.write("a.py", "one\n\nthree")
    assert hands.do("Read", file_path="a.py") == "     1\tone\n     2\t\n     3\tthree"


def test_offset_and_limit_choose_lines_and_what_is_left_is_said(hands):
    hands.write("a.py", "".join(f"line {n}\n" for n in range(1, 11)))
    assert hands.do("Read", file_path="a.py", offset=4, limit=2) == (
        "     4\tline 4\n     5\tline 5\n\n[Cut after line 5, the line limit. Read with offset 6 for more.]"
    )
    assert hands.do("Read", file_path="a.py", offset=9, limit=2) == "     9\tline 9\n    10\tline 10"
    assert hands.fails("Read", file_path="a.py", offset=11) == "a.py has 10 lines; line 11 does not exist."


def test_a_long_file_is_cut_after_so_many_lines(hands):
    hands.write("a.txt", "x\n" * (MAX_LINES + 5))
    said = hands.do("Read", file_path="a.txt", limit=10_000)
    assert said.count("\tx") == MAX_LINES
    assert said.endswith(f"offset {MAX_LINES + 1} for more.]")


def test_a_wide_file_is_cut_after_so_many_tokens(hands):
    hands.write("a.txt", ("word " * 300 + "\n") * 1_000)
    said = hands.do("Read", file_path="a.txt")
    assert 0.9 * MAX_TOKENS < rough(said) <= MAX_TOKENS + 50
    last = said.count("\tword")
    assert said.endswith(
        f"[Cut after line {last}, the limit of {MAX_TOKENS:,} tokens. Read with offset {last + 1} for more.]"
    )


def test_a_very_long_line_is_cut_and_the_next_one_is_whole(hands):
    hands.write("a.txt", "y" * 100_000 + "\nend\n")
    first, second = hands.do("Read", file_path="a.txt").splitlines()
    assert first.startswith("     1\t" + "y" * MAX_LINE_CHARACTERS + " [… ")
    assert second == "     2\tend"


def test_a_file_of_a_hundred_megabytes_is_read_in_part(hands):
    with open(hands.root / "big.log", "wb") as file:
        for _ in range(100):
            file.write(b"0123456789abcde\n" * 65_536)
    said = hands.do("Read", file_path="big.log", offset=5_000_000, limit=1)
    assert said.startswith("5000000\t0123456789abcde\n\n[Cut after line 5000000,")
    assert hands.fails("Write", file_path="big.log", content="") == (
        "big.log is too large to edit (100 MB; the maximum is 32 MB)."
    )


def test_bytes_that_are_no_text_are_shown_as_such(hands):
    hands.write("latin.txt", "caf\xe9\n".encode("latin-1"))
    hands.write("bom.txt", b"\xef\xbb\xbfhi\r\n")
    hands.write("wide.txt", "grüß\n".encode("utf-16"))
    read = [hands.do("Read", file_path=path) for path in ("latin.txt", "bom.txt", "wide.txt")]
    assert read == ["     1\tcaf\ufffd", "     1\thi", "     1\tgrüß"]


def test_a_picture_is_given_as_a_block(hands):
    hands.write("a.png", PNG)
    assert hands.do("Read", file_path="a.png") == [
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PNG).decode()},
        }
    ]


def test_a_picture_too_large_for_the_api_is_refused(hands):
    hands.write("a.png", PNG + b"\0" * MAX_IMAGE_BYTES)
    assert "is an image of 10 MB; the maximum is 10" in hands.fails("Read", file_path="a.png")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("gone.py", "gone.py: it does not exist. Did you mean done.py?"),
        ("zzz/q.py", "zzz/q.py: it does not exist. Find it with Glob."),
        ("src", "src: it is a directory. List it with Glob and path 'src'."),
        ("data.bin", "data.bin is a binary file. Inspect it with a command, such as `file`."),
        ("book.pdf", "book.pdf is a binary file. Inspect it with a command, such as `pdftotext`."),
        ("pipe", "pipe: it is a pipe, not a file."),
        ("", "Read needs `file_path`: a non-empty string."),
    ],
)
def test_what_cannot_be_read_is_said_in_words_that_help(hands, path, said):
    hands.write("src/a.py", "x")
    hands.write("done.py", "x")
    hands.write("data.bin", b"ab\0cd")
    hands.write("book.pdf", b"%PDF\0")
    os.mkfifo(hands.root / "pipe")
    assert hands.fails("Read", **({"file_path": path} if path else {})) == said


def test_an_empty_file_is_said_to_be_empty(hands):
    hands.write("a.py", "")
    assert hands.do("Read", file_path="a.py") == "[a.py is empty.]"


def test_numbers_may_come_as_text_and_nonsense_is_refused(hands):
    hands.write("a.py", "1\n2\n3\n")
    assert hands.do("Read", file_path="a.py", offset="2", limit=1.0).startswith("     2\t2")
    assert hands.fails("Read", file_path="a.py", limit="many") == (
        "`limit` of Read must be a whole number, 1 or more; it was 'many'."
    )
    assert hands.fails("Read", file_path=["a.py"]) == (
        "`file_path` of Read must be a non-empty string; it was \"['a.py']\"."
    )
