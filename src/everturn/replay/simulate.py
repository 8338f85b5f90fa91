"""A recorded session under a scheme: what every call would have read, written and cost (RP-4, RP-5, RP-6).

The engine that runs live is driven with what was recorded. Before each recorded response it decides and lays
out its request; what its cache model says of that request is the bill; then the recorded response is added.
No body is built, unless somebody wants to see it. Each thread is a conversation of its own.
"""

from collections.abc import Callable

from everturn.measure.prefix_cache import PrefixCache
from everturn.replay.journal import Witness
from everturn.replay.player import Player, Prompter
from everturn.replay.prepared import prepare, uses_of
from everturn.replay.schemes import Scheme
from everturn.replay.sessions import Session
from everturn.replay.sight import left_in, sight
from everturn.replay.simulated import Run, SimulatedCall, Totals
from everturn.replay.totals import totals_of
from everturn.replay.uses import SessionUses

__all__ = ["Run", "SimulatedCall", "Totals", "simulate", "uses_of"]


def simulate(
    session: Session,
    scheme: Scheme,
    uses: SessionUses | None,
    *,
    witness: Witness | None = None,
    prompter: Callable[[int], Prompter] | None = None,
) -> Run:
    """The session under the scheme. `uses` are what faults are found with; without them there are none."""
    prepared = prepare(session)
    cache = PrefixCache()
    calls: list[SimulatedCall] = []
    ended: list[str] = []
    players: list[Player] = []
    for at in range(len(session.threads)):
        acts = prepared.recorded[at] if scheme.compacts == "recorded" else prepared.whole[at]
        if not acts.calls:
            continue
        player = Player(
            acts,
            prepared.cast(at, scheme),
            scheme,
            cache,
            sight=sight(uses, at),
            prompter=prompter(at) if prompter else Prompter(),
            witness=witness,
        )
        calls += player.play()
        ended += [player.ended_early] if player.ended_early else []
        players.append(player)
    left = left_in(players[0].talk.log.view, prepared.whole[0]) if players else {}
    totals = totals_of(calls, left)
    return Run(session.name, scheme.name, tuple(calls), totals, "; ".join(ended), prepared.notes(scheme))
