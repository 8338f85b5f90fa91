"""A recorded session under a scheme: what every call would have read, written and cost (RP-4, RP-5, RP-6).

The engine that runs live is driven with what was recorded. Before each recorded response it decides and lays
out its request; what its cache model says of that request is the bill; then the recorded response is added.
No body is built, unless somebody wants to see it. Each thread is a conversation of its own.
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
from everturn.replay.runs import ReplayRun, SimulatedCall, Totals
from everturn.replay.sessions import ReplaySession
from everturn.replay.totals import totals_of

__all__ = ["ReplayRun", "SimulatedCall", "Totals", "index_uses", "simulate"]


def simulate(
    session: ReplaySession,
    scheme: ReplayPolicy,
    uses: SessionUses | None,
    *,
    witness: RequestObserver | None = None,
    writer: SummaryWriter | None = None,
) -> ReplayRun:
    """The session under the scheme. `uses` are what faults are found with; without them there are none.

    `witness` is shown every request; `writer` writes the summaries, where a model is at hand (RP-5).
    """
    prepared = prepare(session)
    cache = PrefixCache()
    players: list[Player] = []
    for at, whole in enumerate(prepared.whole):
        if not whole.calls:
            continue
        player = Player(
            prepared.recorded[at] if scheme.compacts == "recorded" else whole,
            prepared.thread_models(at, scheme),
            scheme,
            cache,
            sight=make_tracker(uses, at),
            prompter=make_oracle(uses.thread(at), whole, scheme.ttl)
            if uses and scheme.foresight
            else EditAdvisor(),
            witness=witness,
            writer=writer,
        )
        player.play()
        players.append(player)
    return _run(session, scheme, prepared, players)


def _run(
    session: ReplaySession, scheme: ReplayPolicy, prepared: PreparedReplay, players: Sequence[Player]
) -> ReplayRun:
    calls = tuple(call for player in players for call in player.journal.calls)
    made = Counter(call.thread for call in calls if call.source == "main")
    main = next((acts for acts in prepared.whole if acts.calls), None)
    left = measure_retained(players[0].talk.log.view, _played(main, players[0])) if main else {}
    return ReplayRun(
        session=session.name,
        scheme=scheme.name,
        calls=calls,
        totals=totals_of(calls, left),
        ended_early="; ".join(player.ended_early for player in players if player.ended_early),
        notes=prepared.notes(scheme),
        floor=compute_floor(session, scheme, made),
    )


def _played(whole: ReplayThread, player: Player) -> ReplayThread:
    """What had happened when a thread ended early: nobody can lose what never came."""
    if not player.ended_early:
        return whole
    made = sum(call.source == "main" for call in player.journal.calls)
    return ReplayThread(whole.thread, whole.calls[:made])
