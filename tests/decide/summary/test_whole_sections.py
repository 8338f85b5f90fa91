"""Every entry of every section with its rank and its short form, for sessions that exceed each limit.

A summary shows only what fits; here nothing is left out. Set EVERTURN_WRITE_GOLDEN=1 to write the files
again; then read every line of the difference.
"""

from collections.abc import Iterator, Sequence
from zlib import crc32

import builders as b
import pytest
from decide.summary.test_whole_summaries import attached, called, check, continued, everything

from everturn.decide.extractive import summarize
from everturn.decide.extractive.reading.facts import Facts
from everturn.decide.extractive.reading.walk import extract_facts
from everturn.decide.extractive.settings import SummarySettings
from everturn.decide.extractive.writing import ending, files, request, trouble
from everturn.decide.extractive.writing.fitting import SummaryEntry
from everturn.history.edits import Pinned
from everturn.history.records import Record
from everturn.wire.queued_messages import QueuedMessage

SMALL = SummarySettings(
    request=60, sentence=50, files=2, snippet_lines=2, snippet=30, failures=2, corrections=2, conclusions=2,
    reports=2, report=30, new_report=60, new_reports=1, concepts=2, calls=2, findings=2, commits=2,
    statement=80,
)  # fmt: skip


def long(length: int, begin: str) -> str:
    """A text of this length without an end of a sentence."""
    return (begin + " and so on" * (length // 10))[:length]


def turns() -> Iterator[Record]:
    """Requests that correct, rule and tell, and reports of all lengths."""
    for n in range(28):
        said = {
            0: long(900, "Repair the reader of rows"),
            1: f"No, that is wrong: row_reader_{n} counts from one.",
            2: f"I just renamed the folder number {n}. Never touch release_{n}.txt.",
            3: f"Actually, {long(150 + 25 * n, f'use the table of part {n}')}.",
        }[n % 4]
        yield b.user(said, uuid=f"u{n}")
        yield b.assistant(
            f"The cause of part {n} is the lexer, because lex_row_{n % 5} reads twice.",
            id=f"w{n}",
            uuid=f"w{n}",
        )
        yield from called(100 + n, "Read", "text", file_path=f"/home/me/project/src/part_{n % 12}/reader.py")
        report = long((41, 39, 300, 520, 1_300)[n % 5], f"Part {n} is done and tested in reader.py")
        yield b.assistant(report, id=f"v{n}", uuid=f"v{n}")


def failing() -> Iterator[Record]:
    for n in range(33):
        text = f"Exit code 1\nE   assert {n} == {n + 1}\n" + long(400, f"line {n}")
        yield from called(200 + n, "Bash", text, error=True, command=f"python tool_{n}.py {long(170, 'x')}")
    for n in range(3):
        yield from called(240 + n, "Read", "Error: no such file", error=True, file_path=f"/gone/{n}.py")
    yield from called(250, "Bash", "Exit code 2\nE   boom", error=True, command="make check")
    yield b.user(f"That is the wrong target. {long(350, 'Use the other one')}", uuid="judged")
    yield from called(251, "Bash", "Exit code 1\n2 failed", error=True, command="go test ./...")
    yield from called(252, "Bash", "ok", command="go vet ./...")
    yield from called(253, "Bash", "Exit code 1\n1 failed", error=True, command="pytest -k one")
    yield from called(254, "Bash", "3 passed", command="pytest")


def delivered() -> Iterator[Record]:
    for n in range(10):
        yield from called(
            300 + n,
            "Bash",
            f"[main 1a2b3c{n}] {long(120 + 20 * n, f'Commit {n}')}",
            command="git commit -am x",
        )
    yield from called(310, "Bash", "   1a2b3c4..5d6e7f8  main -> main", command="git push")
    address = "https://example.org/me/it/pull/7"
    yield from called(311, "Bash", f"{address}\n{address}", command="gh pr create --fill")
    yield from called(312, "Bash", "CONFLICT (content): Merge conflict in a.py\nAutomatic merge failed",
                      error=True, command="git merge side")  # fmt: skip


def crowded() -> list[Record]:
    agents = [
        record
        for n in range(26)
        for record in called(
            400 + n,
            "Task",
            long((30, 260, 600, 1_300)[n % 4], f"Agent {n} reports"),
            error=n % 5 == 4,
            description=long(100 + 10 * n, f"task of agent {n}"),
        )
    ]
    # Names that are mentioned from many times to once, in every language.
    code = "".join(f"def make_row_{n}(): ...\nclass RowOf{n}: ...\n" for n in range(16))
    endings = ("py", "py", "py", "rs", "rs", "go", "go", "ts", "tsx", "js", "md", "toml", "yml", "c", "txt")
    written = [
        record
        for n, end in enumerate(endings)
        for record in called(
            500 + n,
            "Write",
            "ok",
            file_path=f"/home/me/project/src/made/module_{n:02}.{end}",
            content=code if n % 2 else long(700, f"one line {n}"),
        )
    ]
    edited = [
        record
        for n in range(30)
        for record in called(
            540 + n,
            "Edit",
            "ok",
            file_path=f"/home/me/project/lib/other_{n:02}.py",
            old_string="a = 1\nb",
            new_string=f"a = 1\nvalue_{n} = {n}\n" + "more = 2\n" * (n % 15),
        )
    ]
    todos = [
        {"content": f"task {n}", "status": ("completed", "in_progress", "pending")[n % 3]} for n in range(5)
    ]
    return [
        b.edited(Pinned(long(250, "Always answer briefly")), "p1"),
        b.user(long(950, "Build the whole project"), uuid="first"),
        *turns(),
        *failing(),
        *agents,
        *delivered(),
        *called(600, "AskUserQuestion", long(900, "User chose: all of it"), questions=[]),
        b.user(f"Go on: {long(1_000, 'with everything that is left')}", uuid="last"),
        *(
            b.assistant(long(20 + 45 * n, f"Found {n}: the table"), id=f"f{n}", uuid=f"f{n}")
            for n in range(11)
        ),
        *written,
        *edited,
        *called(610, "TodoWrite", "ok", todos=todos),
        *called(611, "Grep", "a.py:1\nb.py:2\nc.py:3\nd.py:4\ne.py:5", pattern=long(200, "find_it")),
        *called(612, "Bash", long(300, "an output of one line"), command="ls -la"),
        *called(613, "Bash", long(500, "an output of one very long line"), command="ls -lb"),
        b.assistant(
            "The remaining work is the second table of rows.\n\n" + long(1_900, "In the end it works now"),
            id="z1",
            uuid="z1",
        ),
    ]


def planning() -> list[Record]:
    """Still in plan mode, with a plan that is not approved, and a question at the end."""
    return [
        b.user("Plan a parser.\n1. read rows\n2. count rows\n3. print rows", uuid="u1"),
        *called(1, "EnterPlanMode", "ok"),
        *called(2, "Read", "x", file_path="notes.md", offset=3),
        *called(3, "ExitPlanMode", "no", error=True, plan=long(2_000, "1. Parse")),
        b.user("Not like this. Show me the options first.", uuid="u2"),
        b.user("And keep all names.", uuid="u3"),
        b.user("What else?", uuid="u4"),
        b.assistant("Item 2 is done.\n\nShould I use\n1. a table\n2. a list?", id="m9", uuid="a9"),
    ]


def at_work() -> list[Record]:
    """The model is at work on a list of items, after an offer that nobody took up."""
    return [
        b.user("Where are the rows?", uuid="u1"),
        b.assistant("In rows.py.\n\nWould you like me to sort them?", id="m1", uuid="a1"),
        b.user("Do these:\n1. read rows\n2. count rows\n3. print rows", uuid="u2"),
        b.assistant("Item 1 is done, still have to do the rest of it.", id="m2", uuid="a2"),
        *called(1, "Edit", "ok", file_path="/w/rows.py", old_string="a", new_string="def count_rows(): ..."),
        *called(2, "Bash", "no", error=True, command="make test"),
        attached("edited_text_file", filename="/w/rows.py"),
        b.assistant(b.call("c9", "Bash", command="make"), id="m3", uuid="a3"),
    ]  # fmt: skip


def unanswered() -> list[Record]:
    return [*at_work()[:2], b.user("2", uuid="u9")]


SESSIONS = {
    "everything": everything, "continued": continued, "crowded": crowded, "planning": planning,
    "at_work": at_work, "unanswered": unanswered,
}  # fmt: skip


def shown(text: str) -> str:
    """A long text by its ends, its length and its checksum."""
    if len(text) <= 200:
        return repr(text)
    return f"{text[:80]!r} … {len(text)}, {crc32(text.encode()):08x} … {text[-30:]!r}"


def sections(facts: Facts, settings: SummarySettings) -> Iterator[tuple[str, Sequence[SummaryEntry]]]:
    yield "request", request.request(facts, settings, "Keep the rows. " + long(300, "And the table"))
    yield "concepts", files.concepts(facts, settings)
    yield "files", files.files(facts, settings)
    yield "errors", trouble.errors(facts, settings)
    yield "problem solving", trouble.problem_solving(facts, settings)
    yield "pending", ending.pending(facts, settings)
    yield "current work", ending.current_work(facts, settings)
    yield "next step", ending.next_step(facts, settings)
    yield "work completed", ending.work_completed(facts, settings)
    yield "context", ending.context_for_continuing(facts, settings)


@pytest.mark.parametrize("size", ["default", "small"])
@pytest.mark.parametrize("name", SESSIONS)
def test_every_entry_has_the_recorded_text_rank_and_short_form(name, size):
    facts = extract_facts(SESSIONS[name]())
    settings = SMALL if size == "small" else SummarySettings()
    lines = [
        f"{section}: {entry.rank} {entry.record} {shown(entry.text)} / {shown(entry.short)}"
        for section, entries in sections(facts, settings)
        for entry in entries
    ]
    check(f"sections_{name}_{size}.txt", "\n".join([*lines, ""]))


def test_a_crowded_session_is_summarized_as_recorded_in_every_size():
    records, lines = crowded(), list[str]()
    for budget in (8_000, 3_000, 1_000, 500, 200, 1, 0):
        made = summarize(records, budget=budget)
        lines += [f"{budget}: {len(made.text)} {crc32(made.text.encode()):08x}, {len(made.dropped)} left out"]
        lines += [f"  {number} {shown(body)}" for number, body in made.sections.items()]
    check("crowded.txt", "\n".join([*lines, ""]))


def test_what_was_typed_while_the_model_worked_stands_where_it_was_typed():
    records = [
        b.user("Begin.", uuid="u1", timestamp="2026-11-15T12:00:00.000Z"),
        b.assistant("Yes.", id="m1", uuid="a1", timestamp="2026-11-15T12:00:10.000Z"),
        b.user("Go on.", uuid="u2", timestamp="2026-11-15T12:00:20.000Z"),
    ]
    typed = [("12:00:30", "third"), ("12:00:05", "first"), ("12:00:10", "second"), ("11:59:59", "too early")]
    queued = [QueuedMessage(text, "sent", f"2026-11-15T{at}.000Z") for at, text in typed]
    found = extract_facts(records, queued=queued)
    assert [said.text for said in found.messages] == ["Begin.", "first", "second", "Go on.", "third"]
    assert [said.text for said in extract_facts([], queued=queued[:1]).messages] == ["third"]
