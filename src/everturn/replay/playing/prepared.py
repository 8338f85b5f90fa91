"""What is the same for every policy in a replay: steps of each thread, token counts, preambles (RP-2)."""

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

# A recording that compacted automatically below this size had a 200K window, even if its model supports more.
USUAL_WINDOW: Final = 200_000


class PreparedReplay:
    """What is the same for every policy: steps, token counts, preambles."""

    def __init__(self, session: ReplaySession) -> None:
        self.session = session
        self.recorded = tuple(build_replay_thread(thread, "as recorded") for thread in session.threads)
        self.whole = tuple(build_replay_thread(thread, "left out") for thread in session.threads)
        self.ratios = {
            name: fit_ratio(
                (thread.calls for thread in self.recorded), name, ScaledCosts(model_or_default(name).model)
            )
            for name in models_of(self.recorded)
        }
        self._costs: dict[tuple[str, float], ScaledCosts] = {}

    def costs(self, model: Model, ratio: float) -> ScaledCosts:
        key = model.id, ratio
        return self._costs.setdefault(key, ScaledCosts(model, ratio))

    def thread_models(self, at: int, policy: ReplayPolicy) -> ThreadModels:
        """The models of a thread by their recorded name, and the size of its preamble."""
        thread: ReplayThread = self.recorded[at]
        models: dict[str, Model] = {}
        costs: dict[str, ScaledCosts] = {}
        for name in models_of((thread,)):
            models[name] = _windowed(model_or_default(policy.model or name).model, self._window(policy))
            # If the policy sets one model for all replies, the session's main model gives the scale for all.
            by = self.session.model if policy.model and self.session.model in self.ratios else name
            costs[name] = self.costs(models[name], self.ratios[by].ratio)
        first = thread.calls[0].model
        if text := self._recorded_preamble() if at == 0 else "":
            return ThreadModels(
                models, costs, costs[first].block(text_block(text)), text, self._ttl(at, policy)
            )
        recorded = model_or_default(first).model
        tokens = estimate_preamble_tokens(thread.calls, self.costs(recorded, self.ratios[first].ratio))
        tokens = round(tokens * recorded.chars_per_token / models[first].chars_per_token)
        return ThreadModels(models, costs, tokens, ttl=self._ttl(at, policy))

    def _ttl(self, at: int, policy: ReplayPolicy) -> Ttl:
        """The policy `recorded` uses the TTL that the recording paid for, unless a switch sets another."""
        if policy.compacts != "recorded" or policy.ttl != "5m":
            return policy.ttl
        usages = (reported_usage(record) for record in self.session.threads[at].records)
        written = [usage.cache_creation for usage in usages if usage and usage.cache_creation]
        hours = sum(each.ephemeral_1h_input_tokens for each in written)
        return "1h" if hours > sum(each.ephemeral_5m_input_tokens for each in written) else "5m"

    def _recorded_preamble(self) -> str:
        return "\n\n".join(part for part in (self.session.system, self.session.tools) if part)

    def _window(self, policy: ReplayPolicy) -> int:
        return policy.window or (USUAL_WINDOW if self._was_compacted_early() else 0)

    def _was_compacted_early(self) -> bool:
        edits = (record.edit for thread in self.session.threads for record in thread.records)
        sizes = [
            edit.tokens_before for edit in edits if isinstance(edit, Compacted) and edit.trigger == "auto"
        ]
        return bool(sizes) and max(sizes) < USUAL_WINDOW

    def notes(self, policy: ReplayPolicy) -> tuple[str, ...]:
        found = list(self.session.notes)
        for name, ratio in self.ratios.items():
            guess = model_or_default(policy.model or name)
            found += [guess.guessed] if guess.guessed else []
            scale = f"scaled by {ratio.ratio:.2f} to match reported usage ({ratio.samples} pairs of calls)"
            found.append(f"{name or 'unnamed model'}: token estimates {scale}")
        if self._window(policy):
            found.append(f"a window of {self._window(policy):,} tokens")
        if policy.summarizer:
            found.append(f"summaries by {policy.summarizer}, asked directly")
        return tuple(found)


def _windowed(model: Model, window: int) -> Model:
    return replace(model, window=min(model.window, window)) if window else model


_last: list[PreparedReplay] = []


def prepare(session: ReplaySession) -> PreparedReplay:
    """Cached for the last session, because policies are usually compared one after the other."""
    if not (_last and _is_same(_last[0].session, session)):
        _last[:] = [PreparedReplay(session)]
    return _last[0]


def _is_same(one: ReplaySession, other: ReplaySession) -> bool:
    named = bool(one.digest) and (one.path, one.digest) == (other.path, other.digest)
    return one is other or named


def index_uses(session: ReplaySession) -> SessionUses:
    """What is needed to find refetches, with block sizes as the simulation counts them."""
    prepared = prepare(session)
    ratio = prepared.ratios.get(session.model, CountRatio()).ratio
    return index_session(session, prepared.costs(model_or_default(session.model).model, ratio).block)
