"""What users and models say in a synthetic session: prompts, thinking, replies, and the summary.

Sentences are short templates with names of the project. The summary is computed from what the session did
(`SummaryFacts`), in the nine sections that Claude Code asks for.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from everturn.replay.synthetic.workspace.tools import SyntheticToolCall

TASKS = (
    "In {file}, {name} gives wrong answers when the list is very long. Please put a sensible bound on it.",
    "We need {name} to survive an outage at the station. Have a look at {file} and make the change.",
    "Please tidy up {file}: the long lists are the problem, start with {name}.",
    "The nightly job was killed again while it was in {name} ({file}). Limit what it takes in.",
    "Add the same protection that we have elsewhere to {name} in {file}, then run its tests.",
)
BUGS = (
    "The tests of {file} fail on my machine since this morning. Find out why and fix it.",
    "CI is red: something around {name}. Can you reproduce it and repair {file}?",
    "I get an exception from {name} with real data. Run the tests of {file} first, then fix the cause.",
)
QUESTIONS = (
    "Where do we use {name}, and what would break if its order changed?",
    "How does {file} decide what is left out? Explain it before we touch anything.",
    "Which modules look like {file}? I want to know whether we can share code.",
)
FOLLOW_UPS = (
    "Good. Now the same for {name} in {file}.",
    "Thanks. One more thing: look again at {file}, I am not sure that it still says what you think.",
    "Fine, go on with {file}.",
    "And {name}? I think it has the same problem.",
)
CORRECTIONS = (
    "No: never push. Commit locally and leave the remote alone, always.",
    "Please do not add dependencies. We agreed on the standard library only.",
    "Stop using abbreviations in names; write the words out, from now on.",
    "Never edit the generated files under dist, change the source instead.",
    "Do not run the whole test suite each time, only the tests of the file you changed.",
    "Wait. I asked for a bound on the input, not for a new parameter. Keep the signatures as they are.",
)
NEW_FILES = (
    "We need a new module for the {noun} desk, in the style of {file}. Write it with tests.",
    "Please start a module like {file} for the next release, with a first set of functions and tests.",
)
DOCUMENTS = ("Write a short page about {file} for new people. Check the guide at {url} for the tone first.",)
PICTURES = (
    "This is what the page shows now. The third bar is wrong, it should come from {name}. See {file}.",
    "Screenshot attached: the chart does not match the numbers in {file}.",
)
DELEGATED = (
    "Have someone look over {file} with fresh eyes, and tell me only what matters.",
    "Let an agent check who depends on {name} while you think about {file}.",
)

THOUGHTS = (
    "The person wants {name} to be safe for long lists. The smallest change is a guard at the top.",
    "I have seen {file} before, but it may have changed since; reading it again is cheaper than guessing.",
    "If I cut the list here, the callers that rely on the order still get the last readings, which is right.",
    "The failure points at one line in {file}. It indexes into a list that can be empty.",
    "There are two ways: bound the input, or page the output. The first keeps the signature as it is.",
    "Before I edit I should see how the neighbours of {name} do it, so that the style stays the same.",
    "The tests cover the empty case and the single case; the very long list is not covered at all.",
    "I must remember what was said about pushing: commits stay local.",
    "Nothing else in {file} calls {name}, so the change cannot leak into another function.",
    "The number itself matters less than the fact that there is one; the harbour office asked for hundreds.",
)
BEFORE = (
    "I will look at {file} first.",
    "Let me read the code around `{name}`.",
    "Now I make the change in {file}.",
    "I run the tests of {file}.",
    "One moment, I check who uses `{name}`.",
    "That explains it. I fix the cause.",
)
DONE = (
    "Done. `{name}` in {file} takes only the last readings now when the list is very long; its tests pass.",
    "The cause was in {file}: `{name}` assumed that the list is never empty. Fixed, the tests are green.",
    "I changed {file} as you asked. Signatures are as before; nothing was pushed.",
    "`{name}` is the only place that needed a change. I left the other functions of {file} alone.",
)
EXPLAINED = (
    "`{name}` walks the list once and keeps what is within its limit; the order comes from the last line. "
    "Two other modules rely on that order, so I would not change it without a test for each of them.",
    "{file} decides row by row. Nothing is left out silently: a row is either kept, or it is over the limit, "
    "and the limit is a parameter with a default.",
)
AGREED = (
    "Understood, I keep to that from now on.",
    "You are right, sorry. I will not do that again in this session.",
    "Noted. I take it back and stay with what you asked for.",
)
TITLES = ("Bound long lists in the feed", "Red CI after the import change", "Pages for the harbour desk")
REPORT = """I read {file} completely.

- `{name}` is correct for short lists.
- For long lists it keeps everything in memory; a bound would be enough.
- Nobody outside this module calls it.

Nothing else needs attention."""
GUIDE = """# Guide for pages

A page answers one question. It begins with the answer, then shows the smallest example that works, then
says what can go wrong. Names of files and functions are written as they are in the code. A page longer
than two screens is two pages."""
CONCEPTS = ("bounded input lists", "readings and owners", "local commits only", "tests per module")


@dataclass(slots=True)
class SummaryFacts:
    """The facts that a summary is computed from."""

    prompts: list[str] = field(default_factory=list[str])
    rules: list[str] = field(default_factory=list[str])
    files: Counter[str] = field(default_factory=Counter[str])
    edits: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    errors: list[str] = field(default_factory=list[str])
    last_text: str = ""

    def note(self, step: SyntheticToolCall) -> None:
        if step.path:
            self.files[step.path] += 1
        if step.is_error and isinstance(step.content, str):
            self.errors.append(step.content.removeprefix("Exit code 1\n").splitlines()[0])
        elif step.tool == "Edit":
            self.edits.append((step.path, step.input["new_string"]))


def pick(rng: Random, sentences: Sequence[str], **names: str) -> str:
    return rng.choice(sentences).format(**names)


def thought(rng: Random, *, sentences: int, **names: str) -> str:
    """Several different sentences in a row; at most all of them."""
    return " ".join(rng.sample(THOUGHTS, min(sentences, len(THOUGHTS)))).format(**names)


def summary_of(memory: SummaryFacts, *, transcript: str, rows: int) -> str:
    """The nine sections. `rows` limits each list, so that the summary of a small session stays small."""
    edits = memory.edits[-rows:]
    files = memory.files.most_common(rows)
    sections = (
        ("Primary Request and Intent", [memory.prompts[0], *memory.rules[-rows:]]),
        ("Key Technical Concepts", CONCEPTS),
        ("Files and Code Sections", [*(f"{path}, used {n}x" for path, n in files), *map(_snippet, edits)]),
        ("Errors and fixes", memory.errors[-rows:] or ["none so far"]),
        ("Problem Solving", ["Long lists are cut to the last readings; signatures stay as they are."]),
        ("All user messages", memory.prompts[-2 * rows :]),
        ("Pending Tasks", [f"Finish: {memory.prompts[-1]}"]),
        ("Current Work", [memory.last_text or memory.prompts[-1]]),
        ("Optional Next Step", [f'Go on with the last request: "{memory.prompts[-1]}"']),
    )
    body = "\n\n".join(
        f"{number}. {title}:\n" + "\n".join(f"   - {row}" for row in listed)
        for number, (title, listed) in enumerate(sections, start=1)
    )
    opening = "This session is being continued from a previous conversation that ran out of context."
    return f"{opening} Its summary follows.\n\nSummary:\n{body}\n\nThe full transcript is at {transcript}"


def _snippet(edit: tuple[str, str]) -> str:
    path, new = edit
    return f"changed in {path}:\n     ```\n{new}\n     ```"
