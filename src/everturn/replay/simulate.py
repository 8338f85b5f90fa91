"""Simulates a recorded session under a policy: what each call would have read, written and cost (RP-4, RP-5,
RP-6).

The live engine runs on the recorded messages. Before each recorded response it plans its edits and lays out
the request. The prediction of its cache model is the bill. Then the recorded response is added. Request
bodies are built only if an observer wants them. Each thread is a separate conversation.
"""

from collections import Counter
from collections.abc import Sequence

from everturn.measure.prefix_cache import PrefixCache
from everturn.replay.bounds.floor import compute_floor
from everturn.replay.bounds.oracle import make_oracle
from everturn.replay.playing.call_log import RequestObserver
from everturn.replay.playing.offline_effects import SummaryWriter
from everturn.replay.playing.player import EditAdvisor, Player
from everturn.replay.playing.prepared import PreparedReplay, index_uses, prepare
from everturn.replay.playing.refetch_tracker import make_tracker, measure_retained
from everturn.replay.playing.steps import ReplayThread
from everturn.replay.policies import ReplayPolicy
from everturn.replay.refetches import SessionUses
from everturn.replay.reported import compare_with_reported
from everturn.replay.runs import ReplayRun, ReportedSums, SimulatedCall, Totals, totals_of
from everturn.replay.sessions import ReplaySession

__all__ = ["ReplayRun", "SimulatedCall", "Totals", "index_uses", "simulate"]


def simulate(
    session: ReplaySession,
    policy: ReplayPolicy,
    uses: SessionUses | None,
    *,
    observer: RequestObserver | None = None,
    writer: SummaryWriter | None = None,
) -> ReplayRun:
    """The session under the policy. `uses` is needed to find refetches; without it there are none.

    `observer` is called with every request. `writer` writes the summaries if a model is available (RP-5).
    """
    prepared = prepare(session)
    cache = PrefixCache()
    players: list[Player] = []
    for at, whole in enumerate(prepared.whole):
        if not whole.calls:
            continue
        player = Player(
            prepared.recorded[at] if policy.compacts == "recorded" else whole,
            prepared.thread_models(at, policy),
            policy,
            cache,
            tracker=make_tracker(uses, at),
            advisor=make_oracle(uses.thread(at), whole, policy.ttl)
            if uses and policy.foresight
            else EditAdvisor(),
            observer=observer,
            writer=writer,
        )
        player.play()
        players.append(player)
    return _run(session, policy, prepared, players)


def _run(
    session: ReplaySession, policy: ReplayPolicy, prepared: PreparedReplay, players: Sequence[Player]
) -> ReplayRun:
    calls = tuple(call for player in players for call in player.call_log.calls)
    made = Counter(call.thread for call in calls if call.source == "main")
    main = next((thread for thread in prepared.whole if thread.calls), None)
    left = measure_retained(players[0].conversation.log.view, _played(main, players[0])) if main else {}
    return ReplayRun(
        session=session.name,
        policy=policy.name,
        calls=calls,
        totals=totals_of(calls, left),
        ended_early="; ".join(player.ended_early for player in players if player.ended_early),
        notes=prepared.notes(policy),
        floor=compute_floor(session, policy, made),
        reported=_compare_with_reported(players) if policy.repeats_recording else None,
    )


def _compare_with_reported(players: Sequence[Player]) -> ReportedSums:
    return compare_with_reported(
        (call, player.thread.calls[call.number - 1].usage)
        for player in players
        for call in player.call_log.calls
        if call.source == "main"
    )


def _played(whole: ReplayThread, player: Player) -> ReplayThread:
    """The part of a thread before it ended early: what came later cannot be lost."""
    if not player.ended_early:
        return whole
    made = sum(call.source == "main" for call in player.call_log.calls)
    return ReplayThread(whole.name, whole.calls[:made])
