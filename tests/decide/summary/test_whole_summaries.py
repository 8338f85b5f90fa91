"""A session in which everything happens that a summary tells, and the whole summary in three sizes.

Set EVERTURN_WRITE_GOLDEN=1 to write the files again; then read every line of the difference.
"""

import json
import os
from pathlib import Path

import builders as b
import msgspec
import pytest

from everturn.decide.extractive import Summary, summarize
from everturn.decide.extractive.reading.walk import extract_facts
from everturn.decide.retention import measure_retention
from everturn.history.edits import Pinned
from everturn.history.records import Record
from everturn.measure.tool_table import DEFAULT_TOOL_TABLE

GOLDEN = Path(__file__).with_name("golden")

EARLIER = """\
1. Primary request and intent:
   - first: "Build the importer."
   - standing: "Never touch the schema."
   - corrected by the user: "No, keep the old reader."

3. Files and code sections:
   - src/importer.py (read 2×, edited 1×)

4. Errors and fixes:
   - Bash `make` failed:

5. Problem solving:
   - the importer skips blank rows

6. All user messages:
   - "Build the importer."

7. Pending tasks:
   - document the importer
"""


PAGE = "# Rows\n\nHow rows are read.\n" + "One line about rows, and why they are read.\n" * 20
CONFLICT = "CONFLICT (content): Merge conflict in src/rows.py\nAutomatic merge failed"
REFUSED = "The user doesn't want to proceed with this tool use. For what to do, the user said:\nuse git mv"


def called(at: int, tool: str, text: object, *, error: bool = False, **inputs: object) -> list[Record]:
    """A call and its result."""
    result = b.answer(f"c{at}", text, **({"is_error": True} if error else {}))
    return [
        b.assistant(b.call(f"c{at}", tool, **inputs), id=f"m{at}", uuid=f"a{at}"),
        b.user([result], uuid=f"r{at}"),
    ]


def attached(kind: str, **fields: object) -> Record:
    return b.record(
        {
            "type": "attachment", "uuid": f"at-{kind}", "parentUuid": None, "isSidechain": False,
            "attachment": {"type": kind, **fields},
        }
    )  # fmt: skip


def everything(page: str = PAGE) -> list[Record]:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}
    todos = [
        {"content": "repair parse_header", "status": "completed"},
        {"content": "measure readRows", "status": "in_progress"},
        {"content": "write the notes", "status": "pending"},
    ]
    report = "I read both modules. The header is parsed twice because readRows calls parse_header again."
    return [
        b.summary(EARLIER),
        b.edited(Pinned("Always answer in English."), "p1"),
        b.user("/review", uuid="u0"),
        b.user([picture, b.say("Make parse_header faster. Never push to main.")], uuid="u1"),
        *called(1, "Read", "def parse_header(): ...", file_path="/p/src/header.py", offset=10, limit=5),
        *called(2, "Grep", "/p/src/rows.py:3: parse_header\n/p/src/rows.py:9: x", pattern="parse_header"),
        b.assistant(report, id="n1", uuid="s1"),
        b.user("No, I meant readRows. You forgot the tests.", uuid="u2"),
        *called(3, "Bash", "Exit code 1\nE   assert 3 == 4\n1 failed", error=True, command="pytest -q tests"),
        *called(4, "Edit", "ok", file_path="/p/src/rows.py", old_string="n", new_string="n - 1\nrow_count"),
        b.user("I just renamed the fixtures. What about the docs?", uuid="u3"),
        *called(5, "Bash", "3 passed", command="pytest -q tests"),
        *called(6, "Bash", "[main 1a2b3c4] Count rows once\n 1 file changed", command="git commit -am rows"),
        *called(7, "Bash", CONFLICT, error=True, command="git merge side"),
        *called(8, "Task", "Two callers are left.\n<usage>9</usage>", description="find callers"),
        *called(9, "Task", "Async agent launched. agentId: b7", description="review docs"),
        *called(10, "TodoWrite", "ok", todos=todos),
        *called(11, "AskUserQuestion", "User chose: keep the cache", questions=[]),
        *called(12, "Write", "ok", file_path="/p/docs/rows.md", content=page),
        *called(13, "Read", "Error: no such file", error=True, file_path="/p/src/gone.py"),
        *called(14, "Bash", REFUSED, error=True, command="mv a b"),
        attached("edited_text_file", filename="/p/src/header.py"),
        b.assistant(
            "It turns out that the cache is never filled, because its key is the row.\n"
            "Next I will measure readRows. Would you like me to add a test for the cache?",
            id="n2",
            uuid="s2",
        ),
        b.user("Yes, and use tabs instead of spaces, please. " + "The log is long. " * 40, uuid="u4"),
        *called(15, "ExitPlanMode", "ok", plan="1. Measure readRows\n2. Write the notes"),
        *called(
            16, "Edit", "ok", file_path="/p/src/rows.py", old_string="a", new_string="cache = RowCache()"
        ),
        *called(
            17,
            "Bash",
            "E   KeyError: row\nFAILED tests/test_rows.py::test_cache\n1 failed",
            error=True,
            command="pytest -q tests/test_rows.py",
        ),
        b.assistant(
            "The test of the cache still fails: its key must be the number of the row.",
            b.call("c18", "Bash", command="python bench.py --rows 1000"),
            id="n3",
            uuid="s3",
        ),
    ]


def told(made: Summary) -> str:
    lines = [f"{each.section} {each.what!r} {each.characters} {each.record}" for each in made.dropped]
    return "\n".join([made.text, "-- left out --", *lines, ""])


def continued() -> list[Record]:
    """The same session after it was compacted by this summary, and a little work since."""
    return [
        b.summary(summarize(everything("# Rows\n")).text),
        b.user("Go on with the cache.", uuid="v1"),
        *called(
            21, "Edit", "ok", file_path="/p/src/importer.py", old_string="a", new_string="b = RowCache(3)"
        ),
        *called(22, "Bash", "4 passed", command="pytest -q tests"),
        *called(23, "Bash", "On branch main\nnothing to commit", command="git status"),
        b.assistant("The cache is filled now, and all tests pass.", id="n9", uuid="s9"),
    ]


def check(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("EVERTURN_WRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, (
        f"after a wanted change: set EVERTURN_WRITE_GOLDEN=1, run again, read the difference of {path}"
    )


@pytest.mark.spec("BY-5")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("whole", {}),
        ("medium", {"budget": 1_100}),
        ("small", {"budget": 520}),
        ("focused", {"budget": 700, "instructions": "Keep what concerns the cache."}),
        ("up_to", {"form": "up_to"}),
        ("from", {"form": "from", "budget": 900}),
    ],
)
def test_a_session_with_everything_is_summarized_as_recorded(name, options):
    check(f"{name}.txt", told(summarize(everything(), **options)))


@pytest.mark.spec("BY-5")
def test_with_less_space_entries_leave_in_the_order_of_their_ranks():
    """What leaves between one size and the next, and what comes back because something larger left."""
    lines, before = list[str](), set[str]()
    for budget in range(1_900, 450, -50):
        made = summarize(everything(), budget=budget)
        left = {f"{each.section} {each.what[:60]!r} {each.characters}" for each in made.dropped}
        lines += [f"{budget} -{each}" for each in sorted(left - before)]
        lines += [f"{budget} +{each}" for each in sorted(before - left)]
        before = left
    check("fitting.txt", "\n".join([*lines, ""]))


@pytest.mark.spec("BY-5")
def test_a_summary_of_a_summary_keeps_what_still_holds():
    check("again.txt", told(summarize(continued())))


def as_json(value: object) -> str:
    found = msgspec.to_builtins(value, order="sorted", str_keys=True)
    return json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


@pytest.mark.parametrize(("name", "session"), [("facts", everything), ("facts_again", continued)])
def test_the_facts_of_a_session_are_read_as_recorded(name, session):
    check(f"{name}.json", as_json(extract_facts(session(), DEFAULT_TOOL_TABLE)))


@pytest.mark.spec("BY-6")
def test_what_each_summary_keeps_is_scored_as_recorded():
    texts = {
        "whole": summarize(everything()).text,
        "small": summarize(everything(), budget=520).text,
        "wrong": (
            "1. Request: make parse_header faster, and never push to main.\n7. Pending tasks:\n   - none\n"
            "8. Current work:\n   - All tests pass; the cache is filled, keyed by row number, "
            "and 1a2b3c4 is committed."
        ),
    }
    scored = {name: measure_retention(everything(), text) for name, text in texts.items()}
    figures = {name: (found, round(found.score, 6)) for name, found in scored.items()}
    check("retention.json", as_json(figures))
