"""The table of pauses is counted in recorded sessions."""

from pathlib import Path

from everturn.replay.pause_table import main

EXAMPLE = Path(__file__).parents[2] / "examples"


def test_the_pauses_of_recorded_sessions_are_counted(capsys):
    assert main([str(EXAMPLE)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "PauseRow(290.0, 2, 0),",
        "PauseRow(3_880.0, 2, 1),",
        "PauseRow(7_470.0, 1, 0),",
        "PauseRow(11_060.0, 1, 0),",
        "PauseRow(14_650.0, 1, 0),",
        "PauseRow(18_240.0, 1, 0),",
    ]
