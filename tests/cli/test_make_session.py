"""`everturn make-session` writes what the generator makes."""

from click.testing import CliRunner

from everturn.cli import main
from everturn.replay.synthetic import SessionShape, generate_session


def test_the_command_writes_the_session_of_its_options_to_a_file_and_to_standard_output(tmp_path):
    options = [
        "make-session",
        "--tokens",
        "6000",
        "--seed",
        "4",
        "--boundaries",
        "1",
        "--cache-lifetime",
        "1h",
    ]
    target = tmp_path / "made.jsonl"
    shown = CliRunner().invoke(main, options)
    written = CliRunner().invoke(main, [*options, "--out", str(target)])
    shape = SessionShape(boundaries=1, cache_lifetime="1h")
    expected = b"".join(line + b"\n" for line in generate_session(seed=4, tokens=6000, shape=shape))
    assert (shown.exit_code, shown.stdout_bytes) == (0, expected)
    assert (written.exit_code, target.read_bytes()) == (0, expected)


def test_a_size_that_cannot_be_made_is_said_in_one_sentence():
    answer = CliRunner().invoke(main, ["make-session", "--tokens", "10"])
    assert answer.exit_code == 1
    assert answer.output == (
        "Error: a synthetic session of 10 tokens is too small for a few turns; ask for at least 5000\n"
    )
