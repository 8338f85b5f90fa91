"""Earlier summaries are read back: ours exactly, a model's as far as it can be."""

import builders as b
import msgspec
import pytest

from everturn.decide.extractive import summarize
from everturn.decide.extractive.reading.earlier import merged, parse_summary
from everturn.decide.extractive.reading.facts import EarlierSummary, FileWork, QuotedText
from everturn.decide.extractive.writing.trouble import carried
from everturn.view.fragments.summary_message import summary_message

BY_A_MODEL = """\
This session is being continued from a previous conversation that ran out of context.

Analysis:
1. **Rebase**: the user asked for a rebase.
6. All user messages: a draft that does not count

Summary:
1. Primary Request and Intent:
   The user wants the importer to be faster.

2. Key Technical Concepts:
   - streaming parsers

3. Files and Code Sections:
   - `src/importer.py`
     - The heart of it.
     ```python
     def load(): ...
     ```
   - **docs/notes.md** (read only)

4. Errors and fixes:
   - **Timeout**: raised the limit.
     - User said it was fine.

5. Problem Solving:
   The buffer was too small, which is solved.

6. All user messages:
   - "make it faster"
   - "never touch
     the schema"

7. Pending Tasks:
   - None explicitly pending

8. Current Work:
   Editing.

9. Optional Next Step:
   - none

If you need details, read the transcript.
"""


def test_a_models_summary_is_read_by_its_headings():
    assert parse_summary(BY_A_MODEL) == EarlierSummary(
        messages=(
            QuotedText("make it faster", is_reported=True),
            QuotedText("never touch\nthe schema", is_reported=True),
        ),
        files=(
            FileWork("docs/notes.md", notes="**docs/notes.md** (read only)"),
            FileWork("src/importer.py", notes="- The heart of it.\n```python\ndef load(): ...\n```"),
        ),
        items={
            4: ("**Timeout**: raised the limit.\n     - User said it was fine.",),
            5: ("   The buffer was too small, which is solved.",),
            7: (),
        },
        intent="The user wants the importer to be faster.",
    )


@pytest.mark.spec("BY-5")
def test_what_a_models_summary_handed_down_is_carried_and_merged_with_newer_work():
    records = [
        b.boundary(),
        b.summary(BY_A_MODEL),
        b.user("go on", uuid="u"),
        b.assistant(b.call("c", "Edit", file_path="/home/me/src/importer.py", new_string="x"), id="m"),
        b.result("c"),
    ]
    found = summarize(records).sections
    assert found[6] == (
        '   - as an earlier summary lists it: "make it faster"\n'
        '   - as an earlier summary lists it: "never touch\n     the schema"\n   - "go on"'
    )
    assert found[3].startswith("   - /home/me/src/importer.py (edited 1×)\n     last change:\n     > x\n")
    assert "docs/notes.md" in found[3]
    assert found[3].count("importer.py") == 1
    assert "**Timeout**: raised the limit." in found[4]
    assert "The buffer was too small" in found[5]
    assert "The user wants the importer to be faster." in found[1]


def test_counts_tasks_and_failures_of_our_own_summary_go_on():
    todo = b.call("t", "TodoWrite", todos=[{"content": "write it down", "status": "pending"}])
    first = [
        b.user("Always answer in French.", uuid="u1"),
        b.assistant(b.call("c1", "Read", file_path="/p/a.py"), todo, id="m1"),
        b.user([b.answer("c1", "no such file", is_error=True), b.answer("t")], uuid="r1"),
        *(
            record
            for at in (3, 4)
            for record in (
                b.assistant(b.call(f"c{at}", "Read", file_path="/p/a.py"), id=f"m{at}"),
                b.result(f"c{at}"),
            )
        ),
    ]
    carried = b.summary(
        summary_message(summarize(first).text, form="full", transcript="/x.jsonl", resuming="directly")
    )
    second = [
        b.boundary(),
        carried,
        b.assistant(b.call("c2", "Read", file_path="/p/a.py"), id="m2"),
        b.result("c2"),
    ]
    found = summarize(second).sections
    assert found[3] == "   - /p/a.py (read 3×)"
    assert found[4] == "   - Read `/p/a.py` failed:\n     > no such file\n     then: nothing yet"
    assert found[7] == (
        '   - at work on, and not reported as done: "Always answer in French."\n'
        '   - From an earlier summary; it may be done by now: todo (pending): "write it down"'
    )
    assert '   - standing: "Always answer in French."' in found[1]


def test_a_newer_list_of_tasks_replaces_the_one_of_before():
    def listed(name: str, text: str) -> list:
        call = b.call(name, "TodoWrite", todos=[{"content": text, "status": "pending"}])
        return [b.assistant(call, id=f"m-{name}"), b.result(name)]

    first = summarize([b.user("go"), *listed("t1", "the old one")])
    found = summarize([b.boundary(), b.summary(first.text), *listed("t2", "the new one")])
    assert found.sections[7] == (
        '   - todo (pending): "the new one"\n   - at work on, and not reported as done: "go"'
    )


def test_paths_below_a_shared_root_are_whole_again_when_read_back():
    records = [b.user("go")]
    for name in ("/p/src/a.py", "/p/src/b.py"):
        records += [b.assistant(b.call(name, "Read", file_path=name), id=name), b.result(name)]
    text = summarize(records).text
    assert "…/a.py" in text
    assert parse_summary(text).files == (FileWork("/p/src/a.py", read=1), FileWork("/p/src/b.py", read=1))


def test_a_text_without_sections_is_handed_down_as_one_text():
    text = "1. First we did this.\n- and that"
    nothing = EarlierSummary(items={4: (), 5: (), 7: ()})
    assert parse_summary(text) == msgspec.structs.replace(nothing, prose=text)
    wrapped = summary_message(text, form="full", transcript="/t.jsonl", resuming="directly")
    assert parse_summary(wrapped) == msgspec.structs.replace(nothing, prose=text)


def test_a_summary_in_a_form_of_its_own_outlives_two_summaries_without_a_model():
    notes = "# Current state\nThe server moves to port 8080.\n\n# Worklog\n- read PORT in src/server.py"
    said = [b.user("Now add a health check.", uuid="u"), b.assistant("Done.", id="m")]
    handed_down = (
        '   - an earlier summary in its own words: "# Current state\n'
        "     The server moves to port 8080.\n\n     # Worklog\n"
        '     - read PORT in src/server.py"'
    )
    first = summarize([b.boundary(), b.summary(notes), *said])
    # What was said behind it was not the first.
    assert first.sections[1] == handed_down
    again = summarize([b.boundary(), b.summary(first.text), b.user("And a test.", uuid="v")])
    assert again.sections[1].startswith(handed_down)


def test_what_a_model_made_of_the_request_outlives_two_summaries_without_a_model():
    first = summarize([b.boundary(), b.summary(BY_A_MODEL), b.user("go on", uuid="u")])
    again = summarize([b.boundary(), b.summary(first.text), b.user("and on", uuid="v")])
    handed_down = "   - as an earlier summary put it: The user wants the importer to be faster."
    assert [handed_down in found.sections[1].split("\n") for found in (first, again)] == [True, True]


def test_two_summaries_in_one_view_are_both_handed_down():
    found = merged(parse_summary("It began with a parser."), parse_summary("Then came a server."))
    assert found.prose == "It began with a parser.\nThen came a server."


def test_of_a_long_summary_in_a_form_of_its_own_it_is_said_how_much_is_missing():
    notes = "A " + "word " * 4_000 + "Z"
    found = summarize([b.boundary(), b.summary(notes), b.user("Go on.", uuid="u")]).sections[1]
    assert found.endswith('word Z"')
    assert " [… 16,003 characters left out …] " in found


def test_a_carried_line_that_is_indented_more_stays_so_and_one_that_is_less_is_indented():
    found = [entry.text for entry in carried(["first\n       deeper\n  less\nnot at all"])]
    assert found == ["first\n       deeper\n     less\n     not at all"]
