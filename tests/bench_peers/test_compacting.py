from peers.compacting import survived
from peers.material import histories
from peers.with_anthropic import KINDS

from everturn.replay.sessions import ReplaySession


def test_histories_that_are_too_short_are_left_out(told: ReplaySession) -> None:
    assert list(histories([told])) == []


def test_the_same_history_is_taken_down_by_everyone(told: ReplaySession) -> None:
    records = told.threads[0].records
    heard: list[str] = []
    ours = list(survived((), [("told", records)], heard.append, is_ours=True))
    theirs = list(survived(KINDS, [("told", records)], heard.append, is_ours=False))
    assert [(each.name, each.history) for each in (*ours, *theirs)] == [
        ("everturn", "told"),
        ("Anthropic compact", "told"),
    ]
    assert all(each.tokens < each.tokens_before / 2 for each in (*ours, *theirs))
    assert ours[0].tokens_before == theirs[0].tokens_before
    assert heard == ["a compaction of told"] * 2
