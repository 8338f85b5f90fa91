"""A model that writes the summaries of a replay, called through the configured provider (RP-5).

Each response is kept with the other results of replays, so that the same summary is paid for once. A provider
that fails ends the replay: a summary without a model in its place would be compared as if the model had
written it.
"""

from hashlib import blake2b

from everturn.decide.effects import ModelAnswer, ModelFailure
from everturn.decide.options import ProviderSettings
from everturn.errors import EverturnError, UpstreamError, UsageError
from everturn.history.records import Usage
from everturn.replay.parallel.result_cache import ResultCache
from everturn.replay.playing.offline_effects import SummaryWriter
from everturn.session.effect_handler import to_model_failure
from everturn.session.opening import ProviderClient, connect
from everturn.session.upstream import RawResponse, Send, parse_reply
from everturn.wire.anthropic import Request


def connect_summarizer(provider: ProviderSettings) -> ProviderClient:
    if not (provider.api_key or provider.auth_token):
        raise UsageError(
            "A summarizer needs an API key: set ANTHROPIC_API_KEY or provider.api_key. Without --summarizer, "
            "summaries are written without a model."
        )
    return connect(None, None, provider)


def make_summary_writer(send: Send, keep: ResultCache) -> SummaryWriter:
    def ask(request: Request) -> RawResponse:
        body = request.to_bytes()
        name = f"summary-{blake2b(body, digest_size=12).hexdigest()}"
        answered = keep.get(name, RawResponse)
        if answered is None:
            answered = send(body, ())
            keep.put(name, answered)
        return answered

    def write(request: Request) -> ModelAnswer | ModelFailure:
        try:
            response = parse_reply(ask(request)).response
        except UpstreamError as problem:
            failure = to_model_failure(problem)
            if failure.kind == "too_long":
                return failure
            raise EverturnError(
                f"The summarizer {request.model} did not answer: {problem}. Nothing was compared. Finished "
                "replays are kept: run the command again, or leave out --summarizer."
            ) from problem
        # Billed by the replay's own cache and clock, not by what the provider reports today.
        return ModelAnswer(response.blocks, response.reply.stop_reason, Usage())

    return write
