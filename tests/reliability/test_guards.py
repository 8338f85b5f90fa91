"""The judges judged: where a promise is broken on purpose, the trials notice (a board that cannot fail says
nothing)."""

from collections import Counter
from pathlib import Path

import pytest
from reliability import crashes, machine, power, provider
from reliability.crashes import Broken, theatre
from reliability.hidden import Everything, Lost
from reliability.machine import Diverged, walked
from reliability.provider import Invalid, judge
from reliability.saboteur import Point
from reliability.score import Kind, Row, check, tally
from reliability.transcripts import written
from reliability.trials import OtherView, Trial

from everturn.history.log import Log
from everturn.session.store import JsonlStore, jsonl_store, record_lines
from everturn.view import flatten
from everturn.wire.claude_code_reader import parse_session_file
from everturn.wire.claude_code_writer import encode_record

SEEDS = range(200)


def first_failure(seeds=SEEDS) -> Exception:
    """What the first conversation raises that fails."""
    for seed in seeds:
        try:
            Trial(seed).run()
        except AssertionError as problem:
            return problem
    raise LookupError("no conversation has noticed anything")


def test_calls_without_their_results_are_noticed(monkeypatch):
    monkeypatch.setattr(
        flatten, "pair_results", lambda calls, results, original, repairs: (list(results), [])
    )
    assert isinstance(first_failure(), Invalid)


def test_ids_that_are_used_twice_are_noticed(monkeypatch):
    monkeypatch.setattr(flatten, "distinct_calls", lambda blocks, used, repairs: list(blocks))
    assert isinstance(first_failure(), Invalid)


def test_a_request_that_the_api_refuses_is_invalid():
    with pytest.raises(Invalid):
        judge(b'{"model":"claude-opus-4-6","max_tokens":9,"messages":[]}', ())


def test_a_block_that_is_not_in_the_file_is_noticed():
    made = written(3)
    found = Everything(parse_session_file(made.data).records)
    assert found.places_of(made.said, {}).total() == len(made.said)
    with pytest.raises(Lost, match="1 blocks are nowhere"):
        found.places_of({*made.said, b"never said"}, {})


def test_a_result_that_is_not_in_its_file_is_noticed(monkeypatch):
    monkeypatch.setattr(provider.Provider, "write_file", lambda self, effect: "/results/gone.txt")
    assert isinstance(first_failure(range(400)), Lost)


def test_a_record_that_is_not_written_is_noticed(monkeypatch):
    """A store that says yes to every third record and keeps it to itself."""
    append, counted = JsonlStore.append, []

    def forgetful(store: JsonlStore, records) -> None:
        counted.append(records)
        if len(counted) % 3:
            append(store, records)

    monkeypatch.setattr(JsonlStore, "append", forgetful)
    assert isinstance(first_failure(), (OtherView, Lost))


def test_an_error_that_becomes_a_summary_is_noticed(monkeypatch):
    from everturn.decide.compact import strategies as ways
    from everturn.decide.compact.summary_response import SummaryCheck
    from everturn.history.blocks import text_of

    def trusting(answer, *_) -> SummaryCheck:
        return SummaryCheck("\n".join(filter(None, map(text_of, answer.blocks))) or "nothing")

    monkeypatch.setattr(ways, "check_summary", trusting)
    monkeypatch.setattr(ways, "check_gate", lambda *_, **__: "", raising=False)
    problem = first_failure(range(600))
    assert isinstance(problem, OtherView), problem
    assert "an error became the summary" in str(problem)


def test_an_undo_that_brings_nothing_back_is_noticed(monkeypatch):
    monkeypatch.setattr(Log, "_undo", lambda log, boundary: "extended")
    assert tally(Kind("walks", walked), range(12)).row.lost > 0


def test_a_view_that_loses_its_end_diverges_from_the_list(monkeypatch):
    monkeypatch.setattr(machine, "spoken", lambda records: [machine.words(each) for each in records][:-1])
    with pytest.raises(Diverged):
        walked(1)


# ── crashes ──────────────────────────────────────────────────────────────────────────────────────


def test_an_acknowledgement_before_the_write_is_noticed(monkeypatch):
    """The child says that a record is safe, then writes it: a kill in between loses it."""
    append = JsonlStore.append

    def hasty(say) -> None:
        def told(store: JsonlStore, records) -> None:
            say({"under way": [encode_record(record).decode() for record in records]})
            say({"kept": True})
            append(store, records)

        JsonlStore.append = told  # type: ignore[method-assign]

    monkeypatch.setattr(crashes, "_acknowledging", hasty)
    with pytest.raises(Broken, match="1 acknowledged records are gone"):
        theatre().trial("turn", Point(1, "before"))


def test_a_half_compaction_is_noticed(monkeypatch):
    """A store that does not look whether a compaction was cut off."""
    theatre().rehearsed("compaction")
    monkeypatch.setattr(record_lines, "undo_cut_off_compaction", lambda records: None)
    writes = [point for point in crashes.points("compaction") if point.when == "inside"]
    noticed = []
    for point in writes:
        for share in (0.9, 0.95, 0.98):
            try:
                theatre().trial("compaction", Point(point.at, "inside", share))
            except Broken as problem:
                noticed.append(str(problem))
    assert "the view is neither the old one nor the new one" in noticed


def test_a_state_file_written_in_place_is_noticed(monkeypatch):
    def in_place(path: str, data: bytes) -> str:
        with open(path, "wb") as file:
            file.write(data)
        return ""

    monkeypatch.setattr(jsonl_store, "replace_file", in_place)
    fresh = crashes.Theatre(Path(theatre().stage.desk.folder.parent, "in-place"))
    calls = fresh.rehearsed("turn")
    with pytest.raises(Broken, match="by halves"):
        fresh.trial("turn", Point(len(calls), "inside", 0.5))
    fresh.stage.session.close()


def test_a_store_that_does_not_sync_is_noticed_by_power_cuts(monkeypatch):
    monkeypatch.setattr(JsonlStore, "_sync", lambda store: None)
    row = tally(Kind("power", power.images), range(60)).row
    assert row.lost > 0


# ── counting ─────────────────────────────────────────────────────────────────────────────────────


def test_losses_and_stumbles_are_counted_apart_and_named_with_how_to_run_them_again():
    def run(seed: int):
        if seed == 1:
            raise Broken("a record is gone")
        if seed == 2:
            raise RuntimeError("the harness stumbled")
        return Counter(faults=1)

    row = tally(Kind("kills", run), range(4)).row
    assert (row.trials, row.faults, row.survived, row.lost, row.unknown) == (4, 2, 2, 1, 1)
    with pytest.raises(AssertionError) as told:
        check(row)
    assert str(told.value) == (
        "1 lost, 1 unknown of 4:"
        "\n  make soak KIND=kills SEED=1 TRIALS=1    # Broken: a record is gone"
        "\n  make soak KIND=kills SEED=2 TRIALS=1    # RuntimeError: the harness stumbled"
    )


def test_zero_losses_say_how_rare_a_loss_is_at_most():
    assert Row(kind="kills", trials=300_000).bound == "1 in 100,000"
    assert (Row(kind="kills", trials=300_000, lost=1).bound, Row(kind="kills", trials=2).bound) == ("-", "-")
