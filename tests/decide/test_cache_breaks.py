"""When a drop of what is read is a break, what it is put down to, and what is remembered of each source."""

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from twin.asking import Desk
from view.talks import HEAD, tool, user

from everturn.decide.cache_breaks import (
    Baseline,
    BreakSettings,
    CacheBreakDetector,
    CallSnapshot,
    DetectedBreak,
    Diagnosis,
    NoBreak,
)
from everturn.decide.cache_key_snapshot import CacheKeyChange, CacheKeySnapshot, take_key_snapshot
from everturn.history.blocks import text_block
from everturn.history.records import Usage
from everturn.measure.outline import BlockLocation, Preamble
from everturn.measure.prefix_cache import Breakpoint
from everturn.view.breakpoints import Breakpoints
from everturn.view.forks import CapturedRequest
from everturn.view.key_parameters import KeyParameters, TtlChoice
from everturn.view.requests import build_request

MINUTE, HOUR = 60.0, 3600.0
OTHER = Preamble(HEAD.tools, (*HEAD.system[:1], text_block("another")), HEAD.marked)


def noted(model: str = "opus", head: Preamble = HEAD, **parameters: Any) -> CacheKeySnapshot:
    return take_key_snapshot(model, head, KeyParameters(TtlChoice("5m", ""), **parameters), Breakpoints())


def called(
    detector: CacheBreakDetector,
    read: int,
    at: float = 0.0,
    *,
    source: str = "main",
    note: CacheKeySnapshot | None = None,
    head: Preamble = HEAD,
    diagnosis: Diagnosis | None = None,
) -> DetectedBreak | NoBreak:
    detector.before_call(source, note or noted(head=head), head, at)
    return detector.after_call(source, Usage(cache_read_input_tokens=read), diagnosis)


def broken(detector: CacheBreakDetector, read: int, at: float = 0.0, **more: Any) -> DetectedBreak:
    verdict = called(detector, read, at, **more)
    assert isinstance(verdict, DetectedBreak)
    return verdict


def warm(read: int = 100_000, at: float = 0.0, **settings: Any) -> CacheBreakDetector:
    detector = CacheBreakDetector(BreakSettings(**{"excluded_models": ()} | settings))
    assert called(detector, read, at) == NoBreak("the first call of this source")
    return detector


# ── what is a break ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("CB-2")
@pytest.mark.parametrize(
    ("before", "after", "is_break"),
    [
        (100_000, 94_999, True),
        (100_000, 95_000, False),
        (30_000, 27_999, True),
        (30_000, 28_000, False),
        (40_000, 37_999, True),
        (40_000, 38_000, False),
        (2_001, 0, True),
        (2_000, 0, False),
        (50_000, 60_000, False),
        (0, 0, False),
    ],
)
def test_a_break_is_a_drop_of_more_than_both_thresholds(before: int, after: int, is_break: bool):
    assert isinstance(called(warm(before), after), DetectedBreak) is is_break


@pytest.mark.spec("CB-2")
@given(st.integers(0, 2_000_000), st.integers(0, 2_000_000))
def test_both_thresholds_are_exact(before: int, after: int):
    lost = before - after
    assert isinstance(called(warm(before), after), DetectedBreak) is (lost * 20 > before and lost > 2_000)


@pytest.mark.spec("CB-2")
def test_each_call_is_compared_with_the_one_before_it():
    detector = warm(100_000)
    assert called(detector, 96_000) == NoBreak("read 96,000 tokens after 100,000")
    assert called(detector, 92_000) == NoBreak("read 92,000 tokens after 96,000")
    assert broken(detector, 0).tokens_lost == 92_000
    assert called(detector, 0) == NoBreak("read 0 tokens after 0")


# ── why ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("CB-3")
@pytest.mark.parametrize(
    ("idle", "why"),
    [
        (0.0, "likely server-side (prompt unchanged, gap under 5 min)"),
        (5 * MINUTE, "likely server-side (prompt unchanged, gap under 5 min)"),
        (5 * MINUTE + 1, "possible TTL expiry (idle for more than 5 minutes)"),
        (HOUR, "possible TTL expiry (idle for more than 5 minutes)"),
        (HOUR + 1, "possible TTL expiry (idle for more than 1 hour)"),
    ],
)
def test_without_a_change_the_idle_time_explains_it_or_the_provider_does(idle: float, why: str):
    assert broken(warm(), 0, idle) == DetectedBreak("main", 100_000, why, (), idle)


@pytest.mark.spec("CB-1", "CB-3")
def test_changes_explain_it_before_any_idle_time():
    detector = warm()
    after = noted("haiku", Preamble((*HEAD.tools, tool("Write")), HEAD.system, HEAD.marked), effort="low")
    pending = detector.before_call("main", after, HEAD, 2 * HOUR)
    assert pending == (
        CacheKeyChange("model", "model changed (opus -> haiku)"),
        CacheKeyChange("tools", "tools changed (+1/-0): +Write"),
        CacheKeyChange("effort", "effort changed (unset -> low)"),
    )
    why = "model changed (opus -> haiku), tools changed (+1/-0): +Write, effort changed (unset -> low)"
    assert detector.after_call("main", Usage()) == DetectedBreak("main", 100_000, why, pending, 2 * HOUR)


@pytest.mark.spec("CB-1")
def test_a_change_is_pending_for_its_own_call_alone():
    detector = warm()
    assert isinstance(called(detector, 100_000, head=OTHER), NoBreak)
    assert broken(detector, 0, 1.0, head=OTHER).changes == ()


@pytest.mark.spec("CB-1", "CB-3")
def test_a_call_that_is_sent_again_is_still_compared_with_the_last_answer():
    """The first attempt failed, and the wait between the two is not what the cache was idle."""
    detector = warm(at=0.0)
    first = detector.before_call("main", noted(head=OTHER), OTHER, 10 * MINUTE)
    assert detector.before_call("main", noted(head=OTHER), OTHER, 11 * MINUTE) == first != ()
    verdict = detector.after_call("main", Usage())
    assert isinstance(verdict, DetectedBreak)
    assert (verdict.changes, verdict.idle) == (first, 11 * MINUTE)
    unchanged = warm(at=0.0)
    unchanged.before_call("main", noted(), HEAD, 10 * MINUTE)
    assert broken(unchanged, 0, 10 * MINUTE + 1).why == "possible TTL expiry (idle for more than 5 minutes)"


@pytest.mark.spec("CB-4")
def test_the_prompts_of_the_last_two_answered_calls_are_kept_for_showing():
    detector = CacheBreakDetector()
    called(detector, 9)
    assert detector.preambles("main") == (None, HEAD)
    detector.before_call("main", noted(head=OTHER), OTHER, 1.0)
    called(detector, 9, 2.0, head=OTHER)
    assert detector.preambles("main") == (HEAD, OTHER)
    assert detector.preambles("nobody") is None


# ── compaction and deletion ──────────────────────────────────────────────────────────────────────


@pytest.mark.spec("CB-5")
def test_after_a_compaction_the_next_call_is_a_first_call():
    detector = warm()
    detector.compacted("main")
    assert detector.baselines == {}
    assert detector.before_call("main", noted(head=OTHER), OTHER, 1.0) == ()
    assert detector.after_call("main", Usage()) == NoBreak("the first call of this source")


@pytest.mark.spec("CB-5")
def test_after_a_deletion_one_comparison_is_passed_over_and_the_baseline_kept():
    detector = warm()
    detector.deleted("main")
    assert detector.before_call("main", noted(head=OTHER), OTHER, 1.0) != ()
    usage = Usage(cache_read_input_tokens=50_000)
    assert detector.after_call("main", usage) == NoBreak("the context was made smaller on purpose")
    assert broken(detector, 0, 2.0, head=OTHER).tokens_lost == 50_000


@pytest.mark.spec("CB-5")
def test_a_deletion_before_the_first_answer_or_at_a_stranger_changes_nothing():
    detector = CacheBreakDetector()
    detector.deleted("main")
    detector.compacted("main")
    assert called(detector, 9_000) == NoBreak("the first call of this source")
    assert broken(detector, 0).tokens_lost == 9_000


# ── sources and models ───────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("CB-6")
def test_sources_are_apart():
    detector = warm()
    assert called(detector, 0, source="agent:a") == NoBreak("the first call of this source")
    detector.compacted("agent:a")
    assert broken(detector, 0).source == "main"


@pytest.mark.spec("CB-6")
def test_the_source_that_was_not_used_for_longest_gives_way():
    detector = CacheBreakDetector(BreakSettings(max_sources=3))
    for name in ("a", "b", "c", "a", "d"):
        called(detector, 9_000, source=name)
    assert list(detector.baselines) == ["c", "a", "d"]
    assert detector.preambles("b") is None
    assert called(detector, 0, source="b") == NoBreak("the first call of this source")
    assert len(CacheBreakDetector(BreakSettings(max_sources=2), detector.baselines).baselines) == 2


@pytest.mark.spec("CB-6")
@given(st.lists(st.text(max_size=3), max_size=60))
def test_there_are_never_more_sources_than_allowed(names: list[str]):
    detector = CacheBreakDetector()
    for name in names:
        called(detector, 9_000, source=name)
        assert len(detector.baselines) <= 10
        assert len(detector._preambles) <= 10


@pytest.mark.spec("CB-6")
def test_an_excluded_model_is_not_judged_and_leaves_the_others_baseline():
    detector = warm(excluded_models=("*haiku*",))
    assert called(detector, 0, 1.0, note=noted("small-haiku")) == NoBreak(
        "small-haiku is excluded from the comparison"
    )
    assert broken(detector, 0, 2.0).idle == 2.0


@pytest.mark.spec("CB-9")
@pytest.mark.parametrize(("settings", "judged"), [({}, False), ({"excluded_models": ()}, True)])
def test_haiku_models_are_left_out_unless_the_setting_says_otherwise(settings, judged):
    detector = CacheBreakDetector(BreakSettings(**settings))
    for at, model in enumerate(("claude-opus-5", "claude-3-5-haiku-latest", "claude-haiku-5-5")):
        called(detector, 100_000, float(at), note=noted(model))
    verdict = called(detector, 0, 4.0, note=noted("claude-haiku-5-5"))
    assert isinstance(verdict, DetectedBreak) is judged
    assert BreakSettings().leaves_out("claude-sonnet-5") is False


@pytest.mark.spec("CB-6", "CB-9")
def test_a_source_of_excluded_models_alone_remembers_its_last_call_and_raises_no_alarm_for_others():
    detector = CacheBreakDetector()
    for at in (0.0, 1.0):
        called(detector, 100_000, at, note=noted("small-haiku"))
    kept = detector.baselines["main"].answered
    assert kept == CallSnapshot(noted("small-haiku"), 1.0)
    assert called(detector, 0, 2.0) == NoBreak("the first call of this source")


def test_an_answer_without_a_call_says_so():
    assert CacheBreakDetector().after_call("main", Usage()) == NoBreak(
        "no call of this source is in progress"
    )


# ── over a restart ───────────────────────────────────────────────────────────────────────────────


def restarted(detector: CacheBreakDetector) -> CacheBreakDetector:
    kept = msgspec.json.encode(detector.baselines)
    return CacheBreakDetector(detector.settings, msgspec.json.decode(kept, type=dict[str, Baseline]))


@pytest.mark.spec("CB-7")
def test_a_resumed_session_is_compared_with_the_last_call_before():
    detector = restarted(warm(at=0.0))
    assert broken(detector, 0, 2 * HOUR, head=OTHER).why.startswith("system prompt changed (")
    assert detector.preambles("main") == (None, OTHER)


@pytest.mark.spec("CB-7")
def test_a_deletion_and_a_call_under_way_survive_too():
    detector = warm()
    detector.deleted("main")
    detector = restarted(detector)
    assert called(detector, 10_000) == NoBreak("the context was made smaller on purpose")
    detector.before_call("main", noted(head=OTHER), OTHER, 1.0)
    verdict = restarted(detector).after_call("main", Usage())
    assert isinstance(verdict, DetectedBreak)
    assert [change.part for change in verdict.changes] == ["system"]


# ── the provider's own diagnosis ─────────────────────────────────────────────────────────────────


@pytest.mark.spec("CB-8")
@pytest.mark.parametrize(
    ("note", "reason", "disagreement"),
    [
        (noted("haiku"), "model_changed", ""),
        (noted(speed="fast"), "model_changed", ""),
        (noted(head=OTHER), "system_changed", ""),
        (noted("haiku", OTHER), "system_changed", ""),
        (
            noted(head=OTHER),
            "tools_changed",
            "the provider says tools_changed, our snapshots differ in system",
        ),
        (
            noted(),
            "system_changed",
            "the provider says system_changed, our snapshots differ in nothing in the key",
        ),
        (
            noted(),
            "messages_changed",
            "the provider says messages_changed, our snapshots differ in nothing in the key",
        ),
        (noted(head=OTHER), "unavailable", ""),
        (noted(head=OTHER), "previous_message_not_found", ""),
        (noted(head=OTHER), "a reason of the future", ""),
    ],
)
def test_the_providers_diagnosis_stands_beside_ours_and_a_disagreement_is_said(note, reason, disagreement):
    diagnosis = Diagnosis(reason, 90_000)
    verdict = broken(warm(), 0, note=note, diagnosis=diagnosis)
    assert (verdict.diagnosis, verdict.disagreement) == (diagnosis, disagreement)


@pytest.mark.spec("CB-8")
def test_a_diagnosis_is_shown_also_where_we_see_no_break():
    diagnosis = Diagnosis("system_changed", 1_500)
    assert called(warm(), 99_000, head=OTHER, diagnosis=diagnosis) == NoBreak(
        "read 99,000 tokens after 100,000", diagnosis
    )


@pytest.mark.spec("CB-8")
@pytest.mark.parametrize(
    ("changed", "agrees"),
    [("model", True), ("system", True), ("tools", True), ("messages", False)],
)
def test_the_twin_diagnoses_what_our_snapshots_say(changed: str, agrees: bool):
    parameters = KeyParameters(TtlChoice("5m", ""))

    def sent(model: str, head: Preamble, words: str, previous: str | None) -> dict[str, Any]:
        safe = CapturedRequest(model, head, parameters, (user(words * 3_000), user("go")), {"max_tokens": 9})
        marks = Breakpoints(((BlockLocation(1, 0), Breakpoint(-1, "5m")),))
        fields = msgspec.json.decode(build_request(safe, marks).to_bytes())
        return {**fields, "diagnostics": {"previous_message_id": previous}}

    desk, detector = Desk(), CacheBreakDetector()
    first = desk.ask(**sent("claude-opus-5", HEAD, "word ", None))
    called(detector, 9_000, note=noted("claude-opus-5"))
    model = "claude-opus-4-8" if changed == "model" else "claude-opus-5"
    tools = (tool("Bash"), tool("Write")) if changed == "tools" else HEAD.tools
    head = Preamble(tools, (OTHER if changed == "system" else HEAD).system, HEAD.marked)
    told = desk.ask(**sent(model, head, "ward " if changed == "messages" else "word ", first["id"]))
    reason = told["diagnostics"]["cache_miss_reason"]
    assert reason["type"] == f"{changed}_changed"
    diagnosis = Diagnosis(reason["type"], reason["cache_missed_input_tokens"])
    verdict = broken(
        detector, told["usage"]["cache_read_input_tokens"], note=noted(model, head), diagnosis=diagnosis
    )
    assert (verdict.disagreement == "") is agrees


# ── beside a naive one ───────────────────────────────────────────────────────────────────────────


class NaiveDetector:
    """The whole history of every source, read from the start for each verdict."""

    def __init__(self) -> None:
        self.history: dict[str, list[tuple[str, str, int, float]]] = {}

    def note(self, source: str, what: str, model: str = "", read: int = 0, at: float = 0.0) -> None:
        self.history.setdefault(source, []).append((what, model, read, at))

    def verdict(self, source: str) -> str:
        past = self.history[source]
        since = max((i for i, event in enumerate(past) if event[0] == "compact"), default=-1) + 1
        answered = [i for i in range(since, len(past)) if past[i][0] == "call"]
        if len(answered) < 2:
            return "first"
        before, now = past[answered[-2]], past[answered[-1]]
        if any(event[0] == "delete" for event in past[answered[-2] : answered[-1]]):
            return "passed over"
        if not ((before[2] - now[2]) * 20 > before[2] and before[2] - now[2] > 2_000):
            return "fine"
        if before[1] != now[1]:
            return f"model changed ({before[1]} -> {now[1]})"
        idle = now[3] - before[3]
        gaps = [(HOUR, "possible TTL expiry (idle for more than 1 hour)")]
        gaps.append((5 * MINUTE, "possible TTL expiry (idle for more than 5 minutes)"))
        server = "likely server-side (prompt unchanged, gap under 5 min)"
        return next((why for gap, why in gaps if idle > gap), server)


def spoken(verdict: DetectedBreak | NoBreak) -> str:
    if isinstance(verdict, DetectedBreak):
        return verdict.why
    if verdict.why.startswith("read "):
        return "fine"
    return {"the first call of this source": "first"}.get(verdict.why, "passed over")


@pytest.mark.spec("CB-2", "CB-3", "CB-5", "CB-6", "CB-7")
@given(st.integers(0, 2**32))
def test_random_sequences_are_judged_as_a_naive_detector_judges_them(seed: int):
    rng = random.Random(seed)
    detector, naive, now = CacheBreakDetector(), NaiveDetector(), 0.0
    for _ in range(60):
        source = rng.choice(("main", "agent:a", "agent:b"))
        now += rng.choice((1.0, 30.0, 299.0, 300.0, 301.0, HOUR, HOUR + 1))
        what = rng.choice(("call",) * 6 + ("fail", "compact", "delete", "restart"))
        model, read = rng.choice("aaab"), rng.choice((0, 2_000, 40_000, 96_000, 100_000))
        if what in ("call", "fail"):
            detector.before_call(source, noted(model), HEAD, now)
            naive.note(source, what, model, read, now)
        if what == "call":
            verdict = detector.after_call(source, Usage(cache_read_input_tokens=read))
            assert spoken(verdict) == naive.verdict(source)
        elif what == "compact":
            detector.compacted(source)
            naive.note(source, "compact")
        elif what == "delete":
            detector.deleted(source)
            naive.note(source, "delete")
        elif what == "restart":
            detector = restarted(detector)
