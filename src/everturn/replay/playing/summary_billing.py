"""The bill of a call that writes a summary: one that a policy makes, or one that the recording made."""

from datetime import datetime

import msgspec

from everturn.decide.effects import ModelFailure
from everturn.engine import Conversation
from everturn.history.blocks import text_block, text_of
from everturn.history.messages import Message
from everturn.history.records import Record, Usage
from everturn.measure.prefix_cache import PrefixCache
from everturn.replay.playing.cache_billing import (
    LastPromptForecast,
    bill_request,
    build_prompt,
    usage_from_prediction,
)
from everturn.replay.playing.call_log import CallLog, UnpricedCall
from everturn.replay.playing.thread_models import PROVIDER, CallingModel
from everturn.view.breakpoints import Breakpoints
from everturn.view.cache_key import compute_key_salts
from everturn.view.flatten import flatten
from everturn.view.forks import CapturedRequest, make_fork
from everturn.view.fragments.summary_prompt import summary_prompt
from everturn.view.requests import build_fork_request
from everturn.wire.anthropic import Request


class SummaryBilling:
    def __init__(
        self, conversation: Conversation, cache: PrefixCache, forecast: LastPromptForecast, log: CallLog
    ) -> None:
        self._conversation, self._cache, self._forecast, self._log = conversation, cache, forecast, log

    def bill(
        self, request: Request, text: str, at: datetime, number: int, calling: CallingModel
    ) -> Usage | ModelFailure:
        """Bills a summary before call `number`. `calling` is the model of the conversation."""
        writes = calling.summarizer(request.model)
        model, costs = writes.model, writes.costs
        # A fork asks for thinking as the call did that it continues, not as the next one will.
        thinking = request.settings.get("thinking")
        parameters = msgspec.structs.replace(self._conversation.setting.parameters, thinking=thinking)
        salt = compute_key_salts(model, parameters)
        prompt = build_prompt(request, costs, salt, PROVIDER, model.min_cache)
        if prompt.total > model.window:
            what = f"prompt is too long: {prompt.total} tokens > {model.window} maximum"
            return ModelFailure("too_long", what)
        parts, output = bill_request(self._cache, prompt, at), costs.block(text_block(text))
        found, lost_behind = self._forecast.hand_over(prompt)
        entry = UnpricedCall(
            source="compact",
            number=number,
            at=at,
            parts=parts,
            output=output,
            why="writes a summary",
            found=found,
            lost_behind=lost_behind,
        )
        self._log.write(entry, model, request, prompt)
        return usage_from_prediction(parts, output)

    def bill_recorded(
        self, summary: Record, at: datetime, number: int, calling: CallingModel, breakpoints: Breakpoints
    ) -> None:
        """Bills the call that wrote a recorded summary. Recordings do not hold it, but it was paid for."""
        setting = self._conversation.setting
        messages = flatten(self._conversation.log.view).messages
        safe = CapturedRequest(
            calling.model.id, setting.preamble, setting.parameters, messages, setting.fields, breakpoints
        )
        asked = Message("user", (text_block(summary_prompt("full", "")),))
        request = build_fork_request(make_fork(safe, (asked,)), PROVIDER)
        self.bill(request, "\n".join(map(text_of, summary.blocks)), at, number, calling)
