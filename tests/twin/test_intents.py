import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everturn.twin.intents import Intents, parse_intents


@pytest.mark.parametrize(
    ("asked", "swap"),
    [
        ("change TAX_RATE to VAT_RATE", ("TAX_RATE", "VAT_RATE")),
        ("Please rename the function add_item to put_item.", ("add_item", "put_item")),
        ("replace `0.2` with `0.25` in prices.py", ("0.2", "0.25")),
        ('replace "two words" by "three little words"', ("two words", "three little words")),
        ("change x to x", None),
        ("explain the tax", None),
    ],
)
def test_a_replacement_is_the_text_on_both_sides_of_to_or_with(asked, swap):
    assert parse_intents(asked).replacement == swap


@pytest.mark.parametrize(
    ("asked", "command", "runs_tests"),
    [
        ("run `git status`", "git status", False),
        ("Run ls -la and tell me what you see", "ls -la", False),
        ("now run the tests", "", True),
        ("run all of the unit tests please", "", True),
        ("what is in the run module?", "", False),
    ],
)
def test_a_command_is_quoted_or_starts_with_a_known_program(asked, command, runs_tests):
    found = parse_intents(asked)
    assert (found.command, found.runs_tests, found.runs) == (command, runs_tests, bool(command) or runs_tests)


def test_a_new_file_gets_the_quoted_or_fenced_content():
    assert parse_intents("create a file notes.md with 'remember the milk'") == Intents(
        paths=("notes.md",),
        words=("remember the milk",),
        new_file="notes.md",
        content="remember the milk",
    )
    fenced = parse_intents("Create hello.py:\n```python\nprint('hi')\n```\nand run `python3 hello.py`")
    assert (fenced.new_file, fenced.content, fenced.command) == (
        "hello.py",
        "print('hi')\n",
        "python3 hello.py",
    )


def test_a_line_is_added_to_a_file_that_is_named():
    found = parse_intents('add a comment "# TODO: round" to prices.py')
    assert (found.line, found.paths, found.plans, found.changes) == (
        "# TODO: round",
        ("prices.py",),
        False,
        True,
    )


def test_identifiers_are_searched_for_first():
    assert parse_intents("where does the receipt of computeTotal use tax_rate?").words == (
        "computeTotal",
        "tax_rate",
        "receipt",
    )


def test_small_talk_is_recognized():
    said = {
        asked: parse_intents(asked).small_talk
        for asked in ("hello", "ok great", "thanks!", "hello world.py", "")
    }
    assert said == {
        "hello": "greeting",
        "ok great": "thanks",
        "thanks!": "thanks",
        "hello world.py": "",
        "": "",
    }


def test_a_change_that_no_rule_covers_is_recognized():
    assert parse_intents("fix the bug in cart.py").needs_unsupported_change
    assert not parse_intents("change a_b to c_d").needs_unsupported_change


@given(st.text(max_size=300))
def test_any_text_can_be_parsed(asked):
    assert isinstance(parse_intents(asked), Intents)


@pytest.mark.parametrize(
    "piece", ["add a ", "`", "'a", "run ls ", "a/", "change the ", "with ", "```a\n", "create a "]
)
def test_no_message_takes_long_to_parse(piece):
    began = time.perf_counter()
    parse_intents(piece * 5_000)
    assert time.perf_counter() - began < 1


@pytest.mark.parametrize(
    "prompt",
    [
        "What is in docs/todo.txt?",
        "Which steps does main.py take?",
        "What is the plan of the authors?",
        "Do not make a plan.",
        "Explain what `step by step` means here.",
        "What does the sub-agent in src/agent.py do?",
        "Do not use a subagent.",
        "Read everything thoroughly.",
    ],
)
def test_a_list_or_a_second_agent_is_used_only_where_the_user_asks_for_it(prompt):
    found = parse_intents(prompt)
    assert (found.plans, found.delegates_search) == (False, False)


@pytest.mark.parametrize(
    ("prompt", "plans", "delegates"),
    [
        ("Make a todo list for the refactoring.", True, False),
        ("Keep a checklist while you look at it.", True, False),
        ("Could you plan this step by step?", True, False),
        ("Use a subagent to find where it is used.", False, True),
        ("Delegate this search.", False, True),
    ],
)
def test_a_list_and_a_second_agent_are_used_where_the_user_asks_for_them(prompt, plans, delegates):
    found = parse_intents(prompt)
    assert (found.plans, found.delegates_search) == (plans, delegates)
