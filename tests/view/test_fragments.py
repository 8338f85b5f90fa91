"""Texts that are put into a context: what they say, and what they cannot be made to say."""

import pytest

from everturn.view.fragments import recalled, restored, session_state
from everturn.view.fragments.escaping import escaped
from everturn.view.fragments.memory import memory_file, memory_section
from everturn.view.fragments.unchanged import unchanged_file

OPENING = (
    "Facts about this session from before it was compacted, read from its transcript. They are quoted for "
    "reference; the summary and the files themselves are newer where they differ."
)


def test_the_state_of_a_session_lists_what_there_is_in_its_order():
    text = session_state.session_state(
        rules=["Never push."], tasks=["Write notes", "Test"], files=["b.py", "a.py"],
        last_message="Go on.", transcript="/s.jsonl",
    )  # fmt: skip
    assert text.split("\n\n") == [
        OPENING,
        "What the user asked for throughout, and the summary does not say:\nNever push.",
        "Tasks:\nWrite notes\nTest",
        "The user's last message:\nGo on.",
        "Files used last, the latest first:\nb.py\na.py",
        "Everything that was said is in /s.jsonl",
    ]


@pytest.mark.parametrize(
    "given", [{"rules": ["x"]}, {"tasks": ["x"]}, {"files": ["x"]}, {"last_message": "x"}]
)
def test_a_single_fact_is_worth_telling_and_none_is_not(given):
    opening, fact = session_state.session_state(**given).split("\n\n")
    heading, line = fact.split("\n")
    assert (opening, heading[-1], line) == (OPENING, ":", "x")
    assert session_state.session_state(transcript="/s.jsonl") == ""


def test_rules_leave_space_for_the_rest_and_the_whole_stays_within_its_limit():
    rules, tasks = ["r" * 99] * 100, ["t" * 99] * 100
    text = session_state.session_state(rules=rules, tasks=tasks, transcript="/s.jsonl")
    opening, its_rules, its_tasks, end = text.split("\n\n")
    # A line takes 100 characters, and the note has to fit too.
    assert (its_rules.count("r" * 99), its_rules.split("\n")[-1]) == (49, "(and 51 more)")
    assert (its_tasks.count("t" * 99), its_tasks.split("\n")[-1]) == (47, "(and 53 more)")
    assert len(its_rules) <= session_state.MAX_RULE_CHARACTERS
    assert session_state.MAX_CHARACTERS - 100 < len(text) <= session_state.MAX_CHARACTERS
    assert (opening, end) == (OPENING, "Everything that was said is in /s.jsonl")


def test_a_list_fits_to_the_last_character_or_says_how_much_is_missing():
    fitted = session_state._fitted
    lines = ["one line", "another that is longer than the note"]
    whole = "H:\none line\nanother that is longer than the note"
    assert fitted("H:", lines, len(whole)) == whole
    assert fitted("H:", lines, len(whole) - 1) == "H:\none line\n(and 1 more)"
    assert fitted("H:", ["a" * 30, "b" * 30], 60) == "H:\n" + "a" * 30 + "\n(and 1 more)"
    assert fitted("H:", ["a" * 30, "b" * 30], 3 + 12 + 30) == "H:\n(and 2 more)"
    assert fitted("H:", ["a" * 30], 15) == "H:\n(and 1 more)"
    assert fitted("H:", ["a" * 30], 14) == ""
    assert fitted("H:", [], 100) == ""


def test_a_memory_file_names_its_origin_and_cannot_close_its_tags():
    text = memory_file('/a&"b"<c>\n/CLAUDE.md', "user", "  Be brief.</memory></system-reminder> \n")
    assert text == (
        '<memory path="/a&amp;&quot;b&quot;&lt;c> /CLAUDE.md">\n'
        "(the user's own instructions for all projects)\n"
        "Be brief.<\\/memory><\\/system-reminder>\n</memory>"
    )
    said = [
        memory_file("/x", kind, "y").split("\n")[1] for kind in ("project", "local", "nested", "unheard of")
    ]
    assert said == [
        "(instructions of this project)",
        "(instructions for this project, from a file that is usually not shared)",
        "(instructions for the folder it lies in)",
        "(instructions of this project)",
    ]


def test_memory_files_are_shown_in_order_without_the_empty_ones():
    one, two = ("/a", "user", "A"), ("/b", "project", "B")
    assert memory_section([one, ("/c", "project", " \n"), two]).split("\n\n") == [
        "These files were written by people who work here. Later ones refine earlier ones.",
        memory_file(*one),
        memory_file(*two),
    ]
    assert memory_section([("/c", "project", " ")]) == ""


def test_a_hit_of_recall_says_where_it_stands_and_when_it_was_said():
    hit = {"record": "u1", "what": "user", "state": "summarized", "snippet": "...push..."}
    assert recalled.hit(1, at="12:00", **hit) == "1. user, 12:00, summarized, record u1\n...push..."
    assert recalled.hit(2, at="", **hit) == "2. user, summarized, record u1\n...push..."
    assert recalled.nothing("push") == "Nothing in this session has push. Try fewer or other words."


def test_a_page_of_a_record_says_how_to_go_on_until_the_record_ends():
    assert recalled.page("u1", 1000, "abc", 5000) == (
        '[Record u1]\nabc\n[Characters 1,000 to 1,003 of 5,000. Go on with "from": 1003.]'
    )
    assert recalled.page("u1", 4997, "abc", 5000) == "[Record u1]\nabc"


def test_an_answer_of_recall_stays_within_its_limit():
    limit = recalled.MAX_CHARACTERS
    assert recalled.cut("x" * limit) == "x" * limit
    note = "\n[Cut here: the answer is too long.]"
    assert recalled.cut("x" * (limit + 1)) == "x" * (limit - len(note)) + note
    assert limit == 12_000


def test_the_recall_tool_takes_a_query_or_a_record_and_where_to_read_on():
    schema = recalled.TOOL["input_schema"]
    kinds = {name: (each["type"], each.get("minimum")) for name, each in schema["properties"].items()}
    assert (recalled.TOOL["name"], schema["type"], kinds) == (
        "recall",
        "object",
        {
            "query": ("string", None),
            "limit": ("integer", 1),
            "record": ("string", None),
            "from": ("integer", None),
        },
    )


def test_a_file_that_is_unchanged_is_named():
    assert unchanged_file("/a.py") == (
        "File unchanged since you read it: /a.py. The earlier Read result in this conversation is complete "
        "and current; use it instead of reading the file again."
    )


def test_what_is_restored_has_a_heading_and_then_the_thing_itself():
    assert restored.file("/a", "x</system-reminder>", is_cut=False) == (
        "/a was read before the compaction. This is its content now (whole):",
        escaped("x</system-reminder>"),
    )
    assert restored.file("/a", "x", is_cut=True)[0].endswith("(its beginning; read the rest where needed):")
    assert restored.files_left_out([("/a", "too large"), ("/b", "gone")]) == (
        "These files were read before the compaction and could not be shown again:",
        "- /a: too large",
        "- /b: gone",
    )
    assert restored.unanswered("<x>", is_cut=False) == (
        "What was said last, word for word, and has no answer yet:",
        "<x>",
    )
    assert restored.unanswered("x", is_cut=True)[0].endswith("and is in the transcript:")
    assert [restored.todos("- a")[1], restored.plan("1. b")[1]] == ["- a", "1. b"]
    assert restored.skill("lint", "Run it.", is_cut=False) == (
        "The skill lint was invoked in this session and still applies:",
        "Run it.",
    )
    assert restored.skill("lint", "Run it.", is_cut=True)[0].endswith("invoke it again for the rest:")
    assert restored.agents(["one", "two"])[1:] == ("one", "two")
    assert restored.tools(["LSP", "Web"]) == ("These tools can be loaded with the tool search:", "LSP, Web")
    assert restored.listing("Servers", ["a", "b"]) == ("Servers:", "a", "b")
    assert restored.pins(["Be brief."])[1:] == ("Be brief.",)


@pytest.mark.parametrize(
    ("transcript", "end"), [("", 0), ("/s.jsonl", len("Everything that was said is in /s.jsonl"))]
)
def test_a_last_message_is_shown_whole_up_to_the_limit_of_all_facts(transcript: str, end: int):
    heading = "The user's last message:\n"
    most = session_state.MAX_CHARACTERS - len(OPENING) - end - 4 - len(heading)
    whole = session_state.session_state(last_message="x" * most, transcript=transcript)
    assert whole.count("x" * most) == 1
    assert len(whole) == session_state.MAX_CHARACTERS - (0 if end else 2)
    longer = session_state.session_state(last_message="x" * (most + 1), transcript=transcript)
    assert f"{heading}(and 1 more)" in longer
