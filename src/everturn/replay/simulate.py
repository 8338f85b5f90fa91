"""Simulates a recorded session under a policy: what each call would have read, written and cost (RP-4, RP-5,
RP-6).

The live engine runs on the recorded messages. Before each recorded response it plans its edits and lays out
the request. The prediction of its cache model is the bill. Then the recorded response is added. Request
bodies are built only if an observer wants them. Each thread is a separate conversation.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal

from everturn.history.records import Usage
from everturn.measure.prefix_cache import PrefixCache
from everturn.replay.bounds.clairvoyant import compute_clairvoyant
from everturn.replay.bounds.clears_only import make_clears_only
from everturn.replay.bounds.floor import compute_floor
from everturn.replay.call_ledger import CallTotals, iter_billed_calls
from everturn.replay.playing.call_log import RequestObserver
from everturn.replay.playing.offline_effects import SummaryWriter
from everturn.replay.playing.player import EditAdvisor, Player
from everturn.replay.playing.prepared import PreparedReplay, index_uses, prepare
from everturn.replay.playing.refetch_tracker import make_tracker, measure_retained
from everturn.replay.playing.steps import ReplayThread
from everturn.replay.policies import ReplayPolicy
from everturn.replay.refetches import SessionUses
from everturn.replay.reported import compare_with_reported, make_comparison, sum_reported_output
from everturn.replay.runs import (
    ReplayRun,
    ReportedComparison,
    SimulatedCall,
    Totals,
    sum_costs,
    totals_of,
)
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
    players = _play(prepared, policy, uses, observer=observer, writer=writer)
    reported = None
    if policy.repeats_recording and not prepared.guessed(policy):
        # Once more, without what the provider's cache did on its own: that is what a prediction is worth.
        events = [event for found in prepared.anchors for event in found.events.values()]
        predicted = _play(prepared, policy, None, copies_events=False) if events else players
        billed = CallTotals()
        for call in iter_billed_calls(session, ""):
            billed.add(call)
        reported = make_comparison(
            compare_with_reported(_with_usage(predicted)),
            compare_with_reported(_with_usage(players)),
            events,
            paid=billed.dollars,
            reported_output=sum_reported_output(_with_usage(players)),
            spent=sum_costs([call for player in players for call in player.call_log.calls]),
            unreported=_sum_unreported(players),
        )
    plan = compute_clairvoyant(session, policy, uses) if uses else None
    return _run(session, policy, prepared, players, reported, plan)


def _play(
    prepared: PreparedReplay,
    policy: ReplayPolicy,
    uses: SessionUses | None,
    *,
    observer: RequestObserver | None = None,
    writer: SummaryWriter | None = None,
    copies_events: bool = True,
) -> list[Player]:
    # The recorded agent had what it used: it needs no refetch (RP-13).
    uses = None if policy.compacts == "recorded" else uses
    cache = PrefixCache()
    players: list[Player] = []
    for at, whole in enumerate(prepared.whole):
        if not whole.calls:
            continue
        player = Player(
            prepared.recorded[at] if policy.compacts == "recorded" else whole,
            prepared.thread_models(at, policy, copies_events=copies_events),
            policy,
            cache,
            tracker=make_tracker(uses, at),
            advisor=make_clears_only(uses.thread(at), whole, policy.ttl)
            if uses and policy.foresight
            else EditAdvisor(),
            observer=observer,
            writer=writer,
        )
        player.play()
        players.append(player)
    return players


def _run(
    session: ReplaySession,
    policy: ReplayPolicy,
    prepared: PreparedReplay,
    players: Sequence[Player],
    reported: ReportedComparison | None,
    plan: Decimal | None,
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
        reported=reported,
        begins_in_middle=prepared.begins_in_middle,
        clairvoyant=plan,
        guessed=prepared.guessed(policy),
        recorded_cost=session.recorded_cost if prepared.guessed(policy) else None,
        is_bound=policy.foresight,
        knows_future=policy.knows_future,
    )


def _with_usage(players: Sequence[Player]) -> Iterator[tuple[SimulatedCall, Usage]]:
    return (
        (call, player.thread.calls[call.number - 1].usage)
        for player in players
        for call in player.call_log.calls
        if call.source == "main"
    )


def _sum_unreported(players: Sequence[Player]) -> Decimal:
    calls = (call.dollars for call, usage in _with_usage(players) if not usage.context)
    return sum(calls, Decimal(0))


def _played(whole: ReplayThread, player: Player) -> ReplayThread:
    """The part of a thread before it ended early: what came later cannot be lost."""
    if not player.ended_early:
        return whole
    made = sum(call.source == "main" for call in player.call_log.calls)
    return ReplayThread(whole.name, whole.calls[:made])
