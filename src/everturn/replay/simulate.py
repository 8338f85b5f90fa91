"""A recorded session under a scheme: what every call would have read, written and cost (RP-4, RP-5, RP-6).

The engine that runs live is driven with what was recorded. Before each recorded response it decides and lays
out its request; what its cache model says of that request is the bill; then the recorded response is added.
No body is built, unless somebody wants to see it. Each thread is a conversation of its own.
"""

from collections import Counter
from collections.abc import Sequence

from everturn.measure.prefix_cache import PrefixCache
from everturn.replay.bounds.floor import floor
from everturn.replay.bounds.oracle import whisper
from everturn.replay.playing.acts import Acts
from everturn.replay.playing.journal import Witness
from everturn.replay.playing.offline_world import Writer
from everturn.replay.playing.player import Player, Prompter
from everturn.replay.playing.prepared import Prepared, prepare, uses_of
from everturn.replay.playing.sight import left_in, sight
from everturn.replay.schemes import Scheme
from everturn.replay.sessions import Session
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
    writer: Writer | None = None,
) -> Run:
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
            prepared.cast(at, scheme),
            scheme,
            cache,
            sight=sight(uses, at),
            prompter=whisper(uses.thread(at), whole, scheme.ttl) if uses and scheme.foresight else Prompter(),
            witness=witness,
            writer=writer,
        )
        player.play()
        players.append(player)
    return _run(session, scheme, prepared, players)


def _run(session: Session, scheme: Scheme, prepared: Prepared, players: Sequence[Player]) -> Run:
    calls = tuple(call for player in players for call in player.journal.calls)
    made = Counter(call.thread for call in calls if call.source == "main")
    main = next((acts for acts in prepared.whole if acts.calls), None)
    left = left_in(players[0].talk.log.view, _played(main, players[0])) if main else {}
    return Run(
        session=session.name,
        scheme=scheme.name,
        calls=calls,
        totals=totals_of(calls, left),
        ended_early="; ".join(player.ended_early for player in players if player.ended_early),
        notes=prepared.notes(scheme),
        floor=floor(session, scheme, made),
    )


def _played(whole: Acts, player: Player) -> Acts:
    """What had happened when a thread ended early: nobody can lose what never came."""
    if not player.ended_early:
        return whole
    made = sum(call.source == "main" for call in player.journal.calls)
    return Acts(whole.thread, whole.calls[:made])
