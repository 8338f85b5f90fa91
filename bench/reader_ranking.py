"""How far the retention score agrees with a reader (BY-6).

    python bench/reader_ranking.py [FOLDER] [--into PAGE]

Somebody read what went on before each recorded compaction below FOLDER, then the summary that a model wrote
(model), the one without a model (ours) and the end of the conversation in as many tokens as the model's
(window), and ordered them by one question: could an agent go on from this alone? The order and its reason are
below. The score agrees on a pair if it prefers the same text, or if both find them equal (scores that differ
by no more than `SAME`). Without the sessions there is nothing to compare, and the command ends with 0.
"""

import sys
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Final, NamedTuple

from everturn.decide.retention import SAME
from everturn.replay.retention_table import FOLDER, RetentionRow, SummaryAuthor, rows

START, END = "<!-- reader ranking -->", "<!-- end of the reader ranking -->"
_COMPARED: Final[tuple[SummaryAuthor, ...]] = ("model", "ours", "window")


class Verdict(NamedTuple):
    """An order such as "ours > model = window", and one sentence why."""

    order: str
    why: str

    def rank(self, author: str) -> int:
        groups = [group.split(" = ") for group in self.order.split(" > ")]
        return next(at for at, group in enumerate(groups) if author in group)


VERDICTS: Final[dict[tuple[str, int], Verdict]] = {
    ("184069756ffc", 1): Verdict(
        "model = ours > window",
        "Both say that the last fix is neither tested nor committed; the model adds a stale comment, "
        "ours the "
        "whole debate that led to the fix.",
    ),
    ("2372de7ea2ff", 1): Verdict(
        "model = ours > window",
        "Both end with the question that was typed while the model worked; the model's explains each fix, "
        "ours has the list of five findings.",
    ),
    ("25730c662552", 1): Verdict(
        "model = ours > window",
        "The model's describes each fix; ours has the numbered list that the user's last message refers to, "
        "and both commits.",
    ),
    ("25730c662552", 2): Verdict(
        "ours > model > window",
        "The model's drops what the user asked before the first compaction, including what to skip.",
    ),
    ("38ecf75f2f1d", 1): Verdict(
        "model > ours > window",
        "The model's names the scenarios that are extended already and those that are left; ours shows the "
        "edits and where reading stopped.",
    ),
    ("432b48f6b6e6", 1): Verdict(
        "ours > model > window",
        "The model's says that the merge is not committed, which it is; ours lists its commit and the "
        "one file "
        "changed since.",
    ),
    ("432b48f6b6e6", 2): Verdict(
        "model > ours > window",
        "The model's says which three of four places still need the change; ours quotes the four and "
        "shows one "
        "edit.",
    ),
    ("5c5cb639eac4", 1): Verdict(
        "model = ours > window",
        "Both have the seven tasks and the doubtful report of the agent; ours has the options behind each "
        "one-letter answer.",
    ),
    ("5c5cb639eac4", 2): Verdict(
        "ours > model = window",
        "The model saw only the last question and lost the feature, its commits and the earlier decisions.",
    ),
    ("649d11045222", 1): Verdict(
        "model = ours > window", "The work is finished, and both say so with the same facts."
    ),
    ("9878b713483d", 1): Verdict(
        "model = ours > window",
        "Both have the inconsistency that was just found; the model's suggests running the tests, ours lists "
        "the files changed since they ran.",
    ),
    ("b02936744f3b", 1): Verdict(
        "model > ours > window",
        "The file begins in the middle of the session: only the model knew what was implemented before.",
    ),
    ("b02936744f3b", 2): Verdict(
        "model > ours > window",
        "The model's knows that a helper it wrote contains leftover code; ours only names the helper.",
    ),
    ("b0dc55b3a1dc", 1): Verdict(
        "model > ours > window",
        "The model's explains what the failing test does and that its own fix may be the cause.",
    ),
    ("bccb77bb88fa", 1): Verdict(
        "model = ours > window",
        "Both say that new tests were written and not run; the model's recalls a caveat in the docs, "
        "ours every "
        "step of the discussion.",
    ),
    ("bccb77bb88fa", 2): Verdict(
        "model = ours > window",
        "The model's says which items are done; ours which item nobody has named yet, and the one at work.",
    ),
    ("cd95adddad32", 1): Verdict(
        "model = ours > window",
        "Both know that tests and lint remain; the model's has more of the code, ours the approved plan.",
    ),
    ("cd95adddad32", 2): Verdict(
        "ours > model = window",
        "The user's last question is open; the model's says that nothing is pending and all is well.",
    ),
    ("cd95adddad32", 3): Verdict(
        "ours > model > window",
        "The model's says that nothing is pending although the last change was not tested, and drops most of "
        "what the user said.",
    ),
    ("d0161e0df1cb", 1): Verdict(
        "model > ours > window",
        "Both have the cause and the offered fix; the model's also remembers to remove the debug output "
        "and to "
        "update the issue.",
    ),
    ("fc99c919b212", 1): Verdict(
        "model > ours > window",
        "The model's knows that two callers still use the old constant; ours has the correction and the "
        "files "
        "that are not committed.",
    ),
    ("20b81bf8_ste", 1): Verdict(
        "model > ours > window",
        "The file begins in the middle of the session: only the model knew the first half of the work.",
    ),
}


class Pair(NamedTuple):
    """Two texts of one compaction: whom the reader prefers and whom the score prefers; "" for neither."""

    first: SummaryAuthor
    second: SummaryAuthor
    reader: str
    score: str


def compare(row: RetentionRow, verdict: Verdict) -> Iterator[Pair]:
    for first, second in combinations(_COMPARED, 2):
        ahead = verdict.rank(second) - verdict.rank(first)
        gained = row.kept[first].score - row.kept[second].score
        reader = "" if ahead == 0 else first if ahead > 0 else second
        yield Pair(first, second, reader, "" if abs(gained) <= SAME else first if gained > 0 else second)


def render(found: Sequence[RetentionRow]) -> str:
    judged = [row for row in found if (row.session, row.number) in VERDICTS]
    pairs = [pair for row in judged for pair in compare(row, VERDICTS[row.session, row.number])]
    lines = [_agreement(pairs), "", "| session | # | model | ours | window | reader | why |"]
    lines.append("| --- | --- | ---: | ---: | ---: | --- | --- |")
    for row in judged:
        verdict = VERDICTS[row.session, row.number]
        scores = " | ".join(f"{row.kept[author].score:.2f}" for author in _COMPARED)
        lines.append(f"| {row.session} | {row.number} | {scores} | {verdict.order} | {verdict.why} |")
    return "\n".join(lines)


def _agreement(pairs: Sequence[Pair]) -> str:
    def told(listed: Sequence[Pair]) -> str:
        agreed = sum(pair.reader == pair.score for pair in listed)
        against = sum(bool(pair.reader and pair.score) and pair.reader != pair.score for pair in listed)
        return f"{agreed} of {len(listed)} ({agreed / len(listed):.0%}), against the reader in {against}"

    lines = [f"Agreement on all pairs: {told(pairs)}."]
    for first, second in combinations(_COMPARED, 2):
        listed = [pair for pair in pairs if (pair.first, pair.second) == (first, second)]
        lines.append(f"- {first} and {second}: {told(listed)}")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    page = Path(arguments[arguments.index("--into") + 1]) if "--into" in arguments[:-1] else None
    given = [each for each in arguments if each != "--into" and (page is None or each != str(page))]
    folder = Path(given[0]) if given else FOLDER
    found = list(rows(folder)) if folder.is_dir() else []
    if not any((row.session, row.number) in VERDICTS for row in found):
        print(f"No compaction below {folder} was ranked by a reader, so there is nothing to compare.")
        return 0
    drawn = render(found)
    if page is None:
        print(drawn)
        return 0
    text = page.read_text(encoding="utf-8")
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        print(f"{page} has no markers. Put {START} and {END} where the ranking belongs.")
        return 1
    page.write_text(f"{before}{START}\n{drawn}\n{END}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
