"""Golden layouts of the three forms of compaction: what the model sees before and after."""

from typing import Any

import builders as b
import pytest
from decide.compact.bench import Bench, manual, turn, turns
from scenes.render import check_scene, scene

from everturn.decide.effects import FileRead
from everturn.history.edits import Undone
from everturn.history.records import Record
from everturn.view.flatten import flatten

TODOS = [{"content": "fix the parser", "status": "in_progress"}]


def story() -> list[Record]:
    """Three turns: a rule first, a todo list in the second."""
    todo = b.assistant(b.call("t", "TodoWrite", todos=TODOS), id="mt", uuid="at")
    rule = turn(1, words="Never push. Look at the parser.")
    return [*rule, *turn(2), todo, b.result("t", uuid="rt"), *turns(3)[8:], b.user("go on", uuid="u4")]


def check(name: str, sentence: str, **wanted: Any) -> Bench:
    bench = Bench(story())
    before = flatten(bench.log.view).messages
    planned = bench.planned(manual(**wanted))
    read = [FileRead(path, f"current {path}\n" * 40) for path in planned.restoration.files]
    for record in bench.finished(planned, files=read).records:
        bench.log.append(record)
    check_scene(name, scene(sentence, before, flatten(bench.log.view).messages, planned.why))
    return bench


@pytest.mark.spec("CP-10")
def test_a_full_compaction():
    sentence = "everything is summarized; the rule, the todo list and the files as they are now come back."
    check("compact-full", sentence)


@pytest.mark.spec("CP-10")
def test_a_compaction_up_to_a_message():
    sentence = "what is before the third question is summarized, the newer messages stay behind the summary."
    check("compact-up-to", sentence, form="up_to", at="u3")


@pytest.mark.spec("CP-10")
def test_a_compaction_from_a_message():
    sentence = "what begins with the third question is summarized, the prefix before it stays byte for byte."
    check("compact-from", sentence, form="from", at="u3")


@pytest.mark.spec("CP-12")
def test_a_cut_inside_a_round():
    sentence = "asked to divide at a result: the cut moves before the call, and the pair stays whole."
    check("compact-moved-cut", sentence, form="up_to", at="r3")


@pytest.mark.spec("CP-30")
def test_an_undo():
    bench = Bench(story())
    bench.compact(manual())
    before = flatten(bench.log.view).messages
    bench.log.append(b.user("not like this", uuid="u5"))
    bench.log.append(b.edited(Undone("n1", "asked for by the user"), "undo"))
    sentence = "a compaction is taken back; what was said since then stays at the end."
    check_scene("compact-undo", scene(sentence, before, flatten(bench.log.view).messages, "undone"))
