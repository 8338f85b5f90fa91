"""A recorded session under a scheme: what every call would have read, written and cost (RP-4, RP-5, RP-6).

The engine that runs live is driven with what was recorded. Before each recorded response it decides and lays
out its request; what its cache model says of that request is the bill; then the recorded response is added.
No body is built, unless somebody wants to see it. Each thread is a conversation of its own.
"""

from dataclasses import replace

from everturn.measure.models import Model, model_or_default
from everturn.measure.prefix_cache import PrefixCache
from everturn.replay.acts import Acts, acts_of, models_of
from everturn.replay.counting import Ratio, Scaled, head_tokens, ratio_of
from everturn.replay.player import Cast, Player, Seen
from everturn.replay.schemes import Scheme
from everturn.replay.sessions import Session
from everturn.replay.simulated import Run, SimulatedCall, Totals
from everturn.replay.till import Witness
from everturn.replay.totals import totals_of
from everturn.replay.uses import SessionUses, Visibility, index_session

__all__ = ["Run", "SimulatedCall", "Totals", "simulate", "uses_of"]

# A recording that compacted by itself below this had the usual window, whatever its model could have had.
USUAL_WINDOW = 200_000


def simulate(
    session: Session, scheme: Scheme, uses: SessionUses | None, *, witness: Witness | None = None
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
        seen = Seen(Visibility(uses, at), uses.thread(at).numbers) if uses else None
        player = Player(acts, prepared.cast(at, scheme), scheme, cache, seen=seen, witness=witness)
        calls += player.play()
        ended += [player.ended_early] if player.ended_early else []
        players.append(player)
    left = players[0].left_of(prepared.whole[0]) if players else {}
    totals = totals_of(calls, left)
    return Run(session.name, scheme.name, tuple(calls), totals, "; ".join(ended), prepared.notes(scheme))


def uses_of(session: Session) -> SessionUses:
    """What faults are found with, its blocks counted as the simulation counts."""
    prepared = prepare(session)
    guess = model_or_default(session.model).model
    ratio = prepared.ratios.get(session.model, Ratio()).ratio
    return index_session(session, prepared.costs(guess, ratio).block)


class Prepared:
    """What is the same for every scheme: acts, counting, heads."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.recorded = tuple(acts_of(thread, "as recorded") for thread in session.threads)
        self.whole = tuple(acts_of(thread, "left out") for thread in session.threads)
        self.ratios = {
            name: ratio_of((acts.calls for acts in self.recorded), name, Scaled(model_or_default(name).model))
            for name in models_of(self.recorded)
        }
        self._costs: dict[tuple[str, float], Scaled] = {}

    def costs(self, model: Model, ratio: float) -> Scaled:
        key = model.id, ratio
        return self._costs.setdefault(key, Scaled(model, ratio))

    def cast(self, at: int, scheme: Scheme) -> Cast:
        """The models of a thread by the name they were recorded with, and how large its head is."""
        acts: Acts = self.recorded[at]
        models: dict[str, Model] = {}
        costs: dict[str, Scaled] = {}
        for name in models_of((acts,)):
            models[name] = _windowed(model_or_default(scheme.model or name).model, self._window(scheme))
            costs[name] = self.costs(models[name], self.ratios[name].ratio)
        first = acts.calls[0].model
        recorded = model_or_default(first).model
        tokens = head_tokens(acts.calls, self.costs(recorded, self.ratios[first].ratio))
        tokens = round(tokens * recorded.chars_per_token / models[first].chars_per_token)
        return Cast(models, costs, tokens)

    def _window(self, scheme: Scheme) -> int:
        return scheme.window or (USUAL_WINDOW if self._was_compacted_early() else 0)

    def _was_compacted_early(self) -> bool:
        boundaries = [r.edit for t in self.session.threads for r in t.records if r.is_boundary]
        sizes = [
            getattr(edit, "tokens_before", 0) for edit in boundaries if getattr(edit, "trigger", "") == "auto"
        ]
        return bool(sizes) and max(sizes) < USUAL_WINDOW

    def notes(self, scheme: Scheme) -> tuple[str, ...]:
        found = list(self.session.notes)
        for name, ratio in self.ratios.items():
            guess = model_or_default(scheme.model or name)
            found += [guess.guessed] if guess.guessed else []
            found.append(
                f"{name or 'unnamed model'}: counts times {ratio.ratio:.2f} ({ratio.samples} pairs of calls)"
            )
        if self._window(scheme):
            found.append(f"a window of {self._window(scheme):,} tokens")
        return tuple(found)


def _windowed(model: Model, window: int) -> Model:
    return replace(model, window=min(model.window, window)) if window else model


_prepared: dict[tuple[str, str], Prepared] = {}


def prepare(session: Session) -> Prepared:
    """Kept for the last session: schemes are usually compared one after the other."""
    key = session.path, session.digest
    if key not in _prepared:
        _prepared.clear()
        _prepared[key] = Prepared(session)
    return _prepared[key]
