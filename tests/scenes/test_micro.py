"""Golden layouts of every kind of micro-compaction: the files beside this one are what reviewers read."""

from datetime import timedelta
from typing import Any

import builders as b
import presets
import pytest
from decide.conversations import LATE, SOON, Bench, finished, read, reads
from scenes.render import check_scene, scene

from everturn.decide.options import Options
from everturn.decide.settings import MicroSettings, OversizeSettings, TimeSettings, WindowSettings
from everturn.history.records import Record
from everturn.measure.capabilities import EXTENDED_TWIN, PLAIN


def with_numbers(name: str, **numbers: Any) -> Options:
    return presets.with_numbers(name, MicroSettings(**numbers))


def check(name: str, sentence: str, bench: Bench, idle: timedelta = SOON, **more: Any) -> str:
    before = bench.flat().messages
    plan = bench.decide(idle, **more)
    bench.apply(plan)
    check_scene(name, scene(sentence, before, bench.flat().messages, f"{plan.kind}: {plan.why}"))
    return plan.kind


def questions() -> list[Record]:
    """Three turns, each a question, a read and an answer."""
    found: list[Record] = []
    for at in range(1, 4):
        found += [b.user(f"question {at}", uuid=f"u{at}"), *read(f"c{at}", 2_000)]
        found += [b.assistant(f"answer {at}", id=f"m{at}", uuid=f"a{at}")]
    return found


@pytest.mark.spec("MC-7")
def test_the_user_comes_back_after_an_hour():
    asked = read("ask", 40, "AskUserQuestion")
    bench = Bench(finished([*reads(1), *asked, *reads(6)[3:]]), "when-cold")
    sentence = "the user comes back after an hour; all but five results are cleared, the user's answer stays."
    assert check("time", sentence, bench, LATE) == "time"


@pytest.mark.spec("MC-9")
def test_twelve_results_are_active_and_the_provider_can_delete():
    sentence = "twelve results, a provider that can delete: one block at the end, nothing else moves."
    assert check("cached", sentence, Bench(finished(reads(12))), capabilities=EXTENDED_TWIN) == "cached"


@pytest.mark.spec("MC-16")
def test_results_exceed_the_budget_where_there_is_no_cache():
    sentence = "results exceed their budget and there is no cache to protect; the oldest go until it fits."
    assert check("budget", sentence, Bench(finished(reads(5, 15_000))), capabilities=PLAIN) == "budget"


@pytest.mark.spec("MC-17")
def test_three_results_of_one_message_are_too_much_together():
    calls = [b.call("c1"), b.call("c2", "Bash"), b.call("c3", "Bash")]
    answers = [b.answer("c1", "one line\n" * 20), b.answer("c2", "a log line\n" * 70)]
    answers += [b.answer("c3", "another line\n" * 40)]
    records = [b.user("go"), b.assistant(b.think("look"), *calls), b.user(answers, uuid="r")]
    numbers = OversizeSettings(message=1_000, single=900, preview=60)
    sentence = "results of one message are too much together; the largest goes to a file before it is sent."
    bench = Bench(records, with_numbers("claude-code", oversize=numbers))
    assert check("oversize", sentence, bench, in_tool_loop=True, binds_thinking=True) == "oversize"


@pytest.mark.spec("PC-16")
def test_an_edit_takes_bound_thinking_along():
    records = finished(reads(3, thought="let me see"))
    bench = Bench(records, with_numbers("when-cold", time=TimeSettings(keep=2)))
    sentence = "a model that binds thinking: the cleared result takes all later thinking along, no earlier."
    price = {"binds_thinking": True, "thinking_tokens_after": lambda since: 6}
    assert check("bound-thinking", sentence, bench, LATE, **price) == "time"


@pytest.mark.spec("PC-16")
def test_an_edit_waits_while_the_loop_runs():
    bench = Bench(reads(3, thought="let me see"), with_numbers("when-cold", time=TimeSettings(keep=1)))
    sentence = "the same in the middle of a tool loop: nothing changes until the loop has ended."
    assert check("waits", sentence, bench, LATE, binds_thinking=True, in_tool_loop=True) == "waits"


def test_masking_shows_the_newest_results_alone():
    sentence = "observation masking: with the eleventh result the first is hidden, on every turn one more."
    assert check("masking", sentence, Bench(reads(11), "masking")) == "masking"


def test_the_api_would_clear_all_but_three():
    sentence = "over the API's trigger: all but the newest three results are cleared, whatever their tool."
    assert check("clear-at", sentence, Bench(finished(reads(6, 15_000)), "clear-keep-3")) == "clear_at"


def test_a_window_drops_the_oldest_turns():
    bench = Bench(questions(), with_numbers("sliding-window", window=WindowSettings(tokens=7_000)))
    sentence = "a sliding window is full: the oldest turns are dropped, the rest begins with a question."
    assert check("window", sentence, bench) == "window"
