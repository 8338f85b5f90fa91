"""Makes tracked conversations: a new one, a fork of another one, one that is read from its file."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

from everturn.adapters.tracking.caller_list import CallerList
from everturn.adapters.tracking.caller_request import CallerRequest
from everturn.adapters.tracking.conversation import UNKNOWN_LIST, TrackedConversation
from everturn.adapters.tracking.effect_handler import refuse_to_send
from everturn.adapters.tracking.fork_records import find_distrusted_reply, take_shared_records
from everturn.adapters.tracking.parts import SettingsSource, TrackerParts
from everturn.adapters.tracking.reporter import Reporter
from everturn.adapters.tracking.rewriting import RewrittenRecords
from everturn.adapters.tracking.scopes import name_conversation
from everturn.adapters.tracking.transcript_folder import TranscriptFile, Transcripts
from everturn.decide.cache_breaks import Baseline, CacheBreakDetector
from everturn.decide.events import Event
from everturn.engine import Conversation, ConversationSettings
from everturn.history.records import Record
from everturn.measure.prediction import Forecast
from everturn.session.bill import BillPurpose, Ledger, UsageTotals
from everturn.session.conversation_runner import ConversationRunner
from everturn.session.events.build import with_session
from everturn.session.state_file import SessionState, read_state

Asides = Mapping[BillPurpose, UsageTotals]


@contextmanager
def close_on_error(transcript: TranscriptFile) -> Generator[None, None, None]:
    """Around the making of a conversation: nobody else will release the lease of its transcript."""
    try:
        yield
    except BaseException:
        transcript.close()
        raise


class ConversationFactory:
    """`transcripts` is where the conversations are kept."""

    def __init__(self, parts: TrackerParts, reporter: Reporter, transcripts: Transcripts) -> None:
        self._parts = parts
        self._reporter = reporter
        self._transcripts = transcripts
        self._settings = SettingsSource(parts)

    def settings(self, request: CallerRequest, transcript: TranscriptFile) -> ConversationSettings:
        return self._settings.settings_for(request, transcript.told_path)

    def binds_thinking(self, request: CallerRequest) -> bool:
        """Whether the model of this request checks that thinking belongs to its prompt."""
        return self._settings.settings_for(request, "").model.binds_thinking

    def new(self, request: CallerRequest) -> TrackedConversation:
        name = name_conversation(self._parts.new_id(), request.scope)
        transcript = self._transcripts.new(request.chain[0], name, self._parts.clock())
        with close_on_error(transcript):
            return self._create(name, self._conversation(request, transcript), transcript)

    def fork(
        self,
        request: CallerRequest,
        parent: TrackedConversation,
        shared: CallerList,
        cut: int,
        *,
        is_whole: bool = False,
        rewritten: RewrittenRecords | None = None,
    ) -> TrackedConversation:
        """A conversation that starts with the parent's records before `cut`, which are `shared` in the
        caller's list. It inherits the parent's cache baselines if system prompt and tools, which are part of
        the cache key, have not changed. `is_whole`: a copy of all of the parent, as after a restart. The
        baseline itself says whether the key has changed. `rewritten` are its records, if a message in them is
        not the parent's."""
        name = name_conversation(self._parts.new_id(), request.scope)
        records = take_shared_records(parent.records, cut) if rewritten is None else rewritten.records
        is_same = is_whole or parent.known.had_same_preamble(len(shared.chain), request.preamble_digest)
        baselines = parent.runner.conversation.detector.baselines if is_same else None
        transcript = self._transcripts.new(request.chain[0], name, self._parts.clock())
        with close_on_error(transcript):
            transcript.append(records)
            conversation = self._conversation(request, transcript, records, baselines)
            # A fork reads less from the cache than its parent did. That is expected, not a cache break.
            conversation.detector.deleted(conversation.setting.source)
            if is_same:
                conversation.cache.last_call = parent.runner.conversation.cache.last_call
            if distrusted := find_distrusted_reply(records):
                conversation.distrust_thinking(UNKNOWN_LIST, distrusted)
            if rewritten is not None and rewritten.changed:
                conversation.view_changed("a message before it was changed", rewritten.changed)
                # It was read from records that nobody has sent like this.
                conversation.cache.forecast = Forecast()
            if is_whole:
                known = parent.runner.conversation.compaction_state
                conversation.compaction_state.remember(known.breaker, known.refill)
            fork = self._create(name, conversation, transcript, caller_list=shared, lineage=parent.lineage)
            fork.inherit_preamble(parent)
            if not any(record.message_id for record in parent.records[cut:]):
                fork.take_requested_compaction(parent)
            return fork

    def restore(
        self, request: CallerRequest, transcript: TranscriptFile, caller_list: CallerList | None = None
    ) -> TrackedConversation:
        """A conversation as its file and its state have it."""
        state = read_state(transcript.store) if transcript.store else SessionState()
        conversation = self._conversation(request, transcript, transcript.records, state.baselines)
        conversation.compaction_state.remember(state.breaker, state.refill)
        economy = conversation.economy
        economy.state, economy.decisions = state.economy, state.decisions
        economy.lost_holds = dict(state.lost_holds)
        transcript.preamble = state.preamble
        return self._create(transcript.name, conversation, transcript, state.asides, caller_list=caller_list)

    def read_records(self, request: CallerRequest, transcript: TranscriptFile) -> TrackedConversation:
        """A conversation as its file has it, with the key of its last call and its breakers. The rest of its
        state belongs to the process that writes it."""
        state = read_state(transcript.store) if transcript.store else SessionState()
        conversation = self._conversation(request, transcript, transcript.records, state.baselines)
        conversation.compaction_state.remember(state.breaker, state.refill)
        return self._create(transcript.name, conversation, transcript)

    def _conversation(
        self,
        request: CallerRequest,
        transcript: TranscriptFile,
        records: Sequence[Record] = (),
        baselines: Mapping[str, Baseline] | None = None,
    ) -> Conversation:
        detector = CacheBreakDetector(self._parts.options.cache.breaks, baselines or {})
        return Conversation(self.settings(request, transcript), records, detector=detector)

    def _create(
        self,
        name: str,
        conversation: Conversation,
        transcript: TranscriptFile,
        asides: Asides | None = None,
        *,
        caller_list: CallerList | None = None,
        lineage: str = "",
    ) -> TrackedConversation:
        def tell(event: Event) -> None:
            self._reporter.tell(with_session(event, name))

        runner = ConversationRunner(
            conversation,
            refuse_to_send,
            clock=self._parts.clock,
            new_id=self._parts.new_id,
            keep=transcript.append,
            tell=tell,
            session=name,
        )
        ledger = Ledger(conversation.log.records, asides)
        return TrackedConversation(name, runner, transcript, ledger, caller_list=caller_list, lineage=lineage)
