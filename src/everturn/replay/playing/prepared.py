"""What is the same for every policy in a replay: steps, token counts, preambles (RP-2, RP-12)."""

from dataclasses import replace
from typing import Final

from everturn.history.edits import Compacted
from everturn.history.records import reported_usage
from everturn.measure.model import Model
from everturn.measure.model_table import model_or_default
from everturn.measure.prefix_cache import PrefixCache, Ttl
from everturn.replay.playing.anchoring import Anchoring, Anchors, with_anchors
from everturn.replay.playing.counting import CountRatio, PreambleSizes, ScaledCosts, fit_ratio
from everturn.replay.playing.opening import measure_opening
from everturn.replay.playing.player import EditAdvisor, Player
from everturn.replay.playing.refetch_tracker import make_tracker
from everturn.replay.playing.steps import ReplayThread, build_replay_thread, make_past, models_of
from everturn.replay.playing.thread_models import ThreadModels
from everturn.replay.policies import RECORDED, REPLAY_POLICIES, ReplayPolicy
from everturn.replay.refetches import SessionUses, index_session
from everturn.replay.sessions import ReplaySession

# A recording that compacted automatically below this size had a 200K window, even if its model supports more.
USUAL_WINDOW: Final = 200_000


class PreparedReplay:
    """What is the same for every policy: steps, token counts, preambles."""

    def __init__(self, session: ReplaySession) -> None:
        self.session = session
        recorded = tuple(build_replay_thread(thread, "as recorded") for thread in session.threads)
        whole = tuple(build_replay_thread(thread, "left out") for thread in session.threads)
        self.ratios = {
            name: fit_ratio((thread.calls for thread in recorded), name, ScaledCosts(_model(name)))
            for name in models_of(recorded)
        }
        self._costs: dict[tuple[int, str, str, bool], ScaledCosts] = {}
        self.anchors = tuple(self._anchor(at, thread) for at, thread in enumerate(recorded))
        self.recorded = tuple(
            with_anchors(thread, found, as_recorded=True)
            for thread, found in zip(recorded, self.anchors, strict=True)
        )
        self.whole = tuple(
            with_anchors(thread, found, as_recorded=False)
            for thread, found in zip(whole, self.anchors, strict=True)
        )

    @property
    def begins_in_middle(self) -> bool:
        return any(found.begins_in_middle for found in self.anchors)

    def costs(self, at: int, name: str, model: Model) -> ScaledCosts:
        """The counts for replies of a recorded model in a thread, if `model` answers instead."""
        key = at, name, model.id, model.keeps_thinking
        if key not in self._costs:
            # If the policy sets one model for all replies, the scale is still that of the recorded one.
            factor = _model(name).chars_per_token / model.chars_per_token
            known = {
                raw: max(1, round(n * factor)) for raw, n in self.anchors[at].sizes.get(name, {}).items()
            }
            self._costs[key] = ScaledCosts(model, self.ratios.get(name, CountRatio()).ratio, known)
        return self._costs[key]

    def thread_models(self, at: int, policy: ReplayPolicy, *, copies_events: bool = True) -> ThreadModels:
        """The models of a thread by their recorded name, and the size of its preamble."""
        thread, anchors = self.recorded[at], self.anchors[at]
        models: dict[str, Model] = {}
        costs: dict[str, ScaledCosts] = {}
        for name in models_of((thread,)):
            models[name] = self._model_of(name, policy)
            costs[name] = self.costs(at, name, models[name])
        first = thread.calls[0].model
        preamble = anchors.preamble.scaled(_model(first).chars_per_token / models[first].chars_per_token)
        return ThreadModels(
            models,
            costs,
            preamble,
            self._ttl(at, policy),
            anchors.events if copies_events else {},
            anchors.warm,
            # With one model for all replies there is one system prompt.
            {} if policy.model else anchors.preambles,
        )

    def _model_of(self, name: str, policy: ReplayPolicy) -> Model:
        model = _windowed(_model(policy.model or name), self._window(policy))
        if policy.compacts != "recorded":
            return model
        # What the recording removed, it removed itself: the reported usage tells.
        return replace(model, keeps_thinking=True, binds_thinking=False)

    def _anchor(self, at: int, thread: ReplayThread) -> Anchors:
        if not thread.calls:
            return Anchors(preamble=PreambleSizes())
        first = thread.calls[0].model
        estimates = ScaledCosts(_model(first), self.ratios[first].ratio)
        text = self._recorded_preamble() if at == 0 else ""
        is_known = not any(model_or_default(name).guessed for name in models_of((thread,)))
        preamble, past = measure_opening(thread, estimates, text, knows_cache=is_known)
        bare = Anchors(preamble=preamble, past=past)
        if not any(step.context for step in thread.calls):
            return bare
        policy, anchoring = REPLAY_POLICIES[RECORDED], Anchoring(past, knows_cache=is_known)
        models = {name: self._model_of(name, policy) for name in models_of((thread,))}
        costs = {name: ScaledCosts(models[name], self.ratios[name].ratio) for name in models}
        if past:
            _, blocks = make_past(thread.name, past)
            for name, counts in costs.items():
                for block, tokens in blocks.items():
                    counts.set_tokens(block, tokens)
                anchoring.sizes[name] = {block.raw: tokens for block, tokens in blocks.items()}
        Player(
            with_anchors(thread, bare, as_recorded=True),
            ThreadModels(models, costs, preamble, self._ttl(at, policy)),
            policy,
            PrefixCache(),
            tracker=make_tracker(None, at),
            advisor=EditAdvisor(),
            before_call=anchoring.adjust,
        ).play()
        return Anchors(
            preamble=preamble,
            sizes=anchoring.sizes,
            unrecorded=anchoring.unrecorded,
            recorded_only=anchoring.recorded_only,
            events=anchoring.events,
            warm=anchoring.warm,
            preambles=anchoring.preambles,
            past=past,
        )

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

    def guessed(self, policy: ReplayPolicy) -> tuple[str, ...]:
        """What is assumed about models that are not in the price table (RP-17)."""
        guesses = (model_or_default(policy.model or name).guessed for name in self.ratios)
        return tuple(dict.fromkeys(guess for guess in guesses if guess))

    def notes(self, policy: ReplayPolicy) -> tuple[str, ...]:
        found = [*self.session.notes, *self.guessed(policy)]
        for name, ratio in self.ratios.items():
            scale = f"scaled by {ratio.ratio:.2f} to match reported usage ({ratio.samples} pairs of calls)"
            found.append(f"{name or 'unnamed model'}: token estimates {scale}")
        if self._window(policy):
            found.append(f"a window of {self._window(policy):,} tokens")
        if policy.summarizer:
            found.append(f"summaries by {policy.summarizer}, asked directly")
        return tuple(found)


def _model(name: str) -> Model:
    return model_or_default(name).model


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
    name = session.model if session.model in prepared.ratios else next(iter(prepared.ratios), "")
    return index_session(session, prepared.costs(0, name, _model(name)).block)
