"""`everturn demo cache`: an agent at work, drawn turn by turn, with the bill at the end."""

import re

import pytest
from click.testing import CliRunner

from everturn.cli import main


def shown(monkeypatch: pytest.MonkeyPatch, *arguments: str, columns: int = 80) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(columns))
    result = CliRunner().invoke(main, ["demo", "cache", "--no-color", *arguments])
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout.splitlines()


def dollars(lines: list[str]) -> dict[str, float]:
    found = (re.match(r"(\w[\w ]*?) +\$ *([\d.]+) ", line) for line in lines[-3:])
    return {bill[1]: float(bill[2]) for bill in found if bill}


def test_sixty_turns_are_drawn_with_the_pause_the_clearing_and_three_bills(monkeypatch):
    lines = shown(monkeypatch)
    assert lines[:2] == ["An agent with 60 calls on Claude Opus 5.", "75 minutes idle after call 30."]
    assert [int(line.split()[0]) for line in lines if re.match(r" +\d+ ", line)] == list(range(1, 61))
    at = lines.index("     · idle for 75 minutes")
    why = " ".join(f"{lines[at + 1]} {lines[at + 2]}".split())
    assert re.fullmatch(r"· 75 minutes idle, the cache is cold: clears \d+ results, saves [\d,]+ tokens", why)
    assert "60 of 60 calls read and wrote exactly what was predicted." in lines
    bills = dollars(lines)
    assert list(bills) == ["everturn", "caching only", "no caching"]
    assert bills["everturn"] < bills["caching only"] < bills["no caching"]


def test_the_same_seed_draws_the_same_and_no_line_is_wider_than_the_screen(monkeypatch):
    lines = shown(monkeypatch, "--turns", "12", "--seed", "3", columns=60)
    assert lines == shown(monkeypatch, "--turns", "12", "--seed", "3", columns=60)
    assert [line for line in lines if len(line) > 60] == []


def test_a_short_pause_clears_nothing(monkeypatch):
    lines = shown(monkeypatch, "--turns", "12", "--idle", "6")
    assert [line.strip() for line in lines if "·" in line] == [
        "· idle for 6 minutes",
        "· the cache broke: possible TTL expiry (idle for more than 5 minutes)",
    ]


def test_a_terminal_without_shapes_gets_letters(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    result = CliRunner(charset="ascii").invoke(main, ["demo", "cache", "--no-color", "--turns", "8"])
    assert result.exit_code == 0
    assert [line.strip() for line in result.stdout.splitlines() if line.startswith("     -")] == [
        "- idle for 77 minutes",
        "- the cache broke: possible TTL expiry (idle for more than 1 hour)",
    ]


def test_a_session_that_does_not_fit_into_the_window_says_what_to_do():
    done = CliRunner().invoke(main, ["demo", "cache", "--turns", "300", "--model", "claude-haiku-4-5"])
    assert done.exit_code == 1
    assert "300 calls do not fit into the window of Claude Haiku 4.5 (prompt is too long" in done.stderr
    assert "Use fewer --turns" in done.stderr


def test_a_model_that_does_not_exist_is_named():
    result = CliRunner().invoke(main, ["demo", "cache", "--model", "claude-nope"])
    assert result.exit_code == 2
    assert "unknown model 'claude-nope'" in result.stderr
