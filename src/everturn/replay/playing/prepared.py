"""What of a replay is the same for every scheme: the acts of each thread, the counting, the heads (RP-2)."""

from dataclasses import replace
from typing import Final

from everturn.history.blocks import text_block
from everturn.history.edits import Compacted
from everturn.history.records import reported_usage
from everturn.measure.model import Model
from everturn.measure.model_table import model_or_default
from everturn.measure.prefix_cache import Ttl
from everturn.replay.playing.counting import CountRatio, ScaledCosts, estimate_preamble_tokens, fit_ratio
from everturn.replay.playing.player import ThreadModels
from everturn.replay.playing.steps import ReplayThread, build_replay_thread, models_of
from everturn.replay.policies import ReplayPolicy
from everturn.replay.refetches import SessionUses, index_session
from everturn.replay.sessions import ReplaySession

# A recording that compacted by itself below this had the usual window, whatever its model could have had.
USUAL_WINDOW: Final = 200_000


class PreparedReplay:
    """What is the same for every scheme: acts, counting, heads."""

    def __init__(self, session: ReplaySession) -> None:
        self.session = session
        self.recorded = tuple(build_replay_thread(thread, "as recorded") for thread in session.threads)
        self.whole = tuple(build_replay_thread(thread, "left out") for thread in session.threads)
        self.ratios = {
            name: fit_ratio(
                (acts.calls for acts in self.recorded), name, ScaledCosts(model_or_default(name).model)
            )
            for name in models_of(self.recorded)
        }
        self._costs: dict[tuple[str, float], ScaledCosts] = {}

    def costs(self, model: Model, ratio: float) -> ScaledCosts:
        key = model.id, ratio
        return self._costs.setdefault(key, ScaledCosts(model, ratio))

    def thread_models(self, at: int, scheme: ReplayPolicy) -> ThreadModels:
        """The models of a thread by the name they were recorded with, and how large its head is."""
        acts: ReplayThread = self.recorded[at]
        models: dict[str, Model] = {}
        costs: dict[str, ScaledCosts] = {}
        for name in models_of((acts,)):
            models[name] = _windowed(model_or_default(scheme.model or name).model, self._window(scheme))
            # One model for all replies counts them all alike.
            by = self.session.model if scheme.model and self.session.model in self.ratios else name
            costs[name] = self.costs(models[name], self.ratios[by].ratio)
        first = acts.calls[0].model
        if text := self._recorded_preamble() if at == 0 else "":
            return ThreadModels(
                models, costs, costs[first].block(text_block(text)), text, self._ttl(at, scheme)
            )
        recorded = model_or_default(first).model
        tokens = estimate_preamble_tokens(acts.calls, self.costs(recorded, self.ratios[first].ratio))
        tokens = round(tokens * recorded.chars_per_token / models[first].chars_per_token)
        return ThreadModels(models, costs, tokens, ttl=self._ttl(at, scheme))

    def _ttl(self, at: int, scheme: ReplayPolicy) -> Ttl:
        """The recorded scheme has the lifetime that the recording paid for, unless it is told otherwise."""
        if scheme.compacts != "recorded" or scheme.ttl != "5m":
            return scheme.ttl
        usages = (reported_usage(record) for record in self.session.threads[at].records)
        written = [usage.cache_creation for usage in usages if usage and usage.cache_creation]
        hours = sum(each.ephemeral_1h_input_tokens for each in written)
        return "1h" if hours > sum(each.ephemeral_5m_input_tokens for each in written) else "5m"

    def _recorded_preamble(self) -> str:
        return "\n\n".join(part for part in (self.session.system, self.session.tools) if part)

    def _window(self, scheme: ReplayPolicy) -> int:
        return scheme.window or (USUAL_WINDOW if self._was_compacted_early() else 0)

    def _was_compacted_early(self) -> bool:
        edits = (record.edit for thread in self.session.threads for record in thread.records)
        sizes = [
            edit.tokens_before for edit in edits if isinstance(edit, Compacted) and edit.trigger == "auto"
        ]
        return bool(sizes) and max(sizes) < USUAL_WINDOW

    def notes(self, scheme: ReplayPolicy) -> tuple[str, ...]:
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


_last: list[PreparedReplay] = []


def prepare(session: ReplaySession) -> PreparedReplay:
    """Kept for the last session: schemes are usually compared one after the other."""
    if not (_last and _is_same(_last[0].session, session)):
        _last[:] = [PreparedReplay(session)]
    return _last[0]


def _is_same(one: ReplaySession, other: ReplaySession) -> bool:
    named = bool(one.digest) and (one.path, one.digest) == (other.path, other.digest)
    return one is other or named


def index_uses(session: ReplaySession) -> SessionUses:
    """What faults are found with, its blocks counted as the simulation counts."""
    prepared = prepare(session)
    ratio = prepared.ratios.get(session.model, CountRatio()).ratio
    return index_session(session, prepared.costs(model_or_default(session.model).model, ratio).block)
