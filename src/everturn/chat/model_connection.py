"""The connection to a model: the API if a key is set, otherwise a twin in this process.

A connection that cannot work (missing package, invalid key) fails when it is first used. A conversation can
therefore always be opened and read. A table gives advice for each error of the API.
"""

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from everturn.catalog.practice import mark_practice
from everturn.decide.options import ProviderSettings
from everturn.errors import UpstreamError, UsageError
from everturn.session.opening import make_client
from everturn.session.upstream import RawResponse, Send

if TYPE_CHECKING:
    import anthropic

ModelChoice = Literal["whatever there is", "twin"]

_TWIN: Final = (
    "practice with the twin, a rule-based test agent: not a model, and nothing is billed. Let it change only "
    "files that you can lose"
)
TWIN_WITHOUT_KEY: Final = f"No API key found. This is {_TWIN}; set ANTHROPIC_API_KEY to use a real model."
TWIN_CHOSEN: Final = f"This is {_TWIN}."
NO_PACKAGE: Final = (
    "An API key is set, but the package 'anthropic' is not installed: run pip install 'everturn[chat]'. "
    "To try it without a model: everturn chat --twin."
)
INVALID_KEY: Final = (
    "The value of ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN is not a valid key: it contains a space or a "
    "non-ASCII character. Correct it and start again."
)


class ModelConnection(NamedTuple):
    """Either `client` or `send`, as `Session.open` takes them. `notice` is shown to the user at the start.
    `is_practice` says that the twin answers: nothing is billed."""

    client: "anthropic.Anthropic | None" = None
    send: Send | None = None
    notice: str = ""
    is_practice: bool = False


def connect_to_model(keys: ProviderSettings, wanted: ModelChoice = "whatever there is") -> ModelConnection:
    has_key = bool(keys.api_key or keys.auth_token)
    if wanted == "twin" or not has_key:
        unused = " ANTHROPIC_BASE_URL is ignored without a key." if keys.base_url else ""
        notice = TWIN_CHOSEN if wanted == "twin" else TWIN_WITHOUT_KEY + unused
        return ModelConnection(send=_twin(), notice=notice, is_practice=True)
    if not _could_be_keys(keys):
        return ModelConnection(send=_raise_on_send(INVALID_KEY), notice=INVALID_KEY)
    try:
        return ModelConnection(client=make_client(keys))
    except ModuleNotFoundError:
        return ModelConnection(send=_raise_on_send(NO_PACKAGE), notice=NO_PACKAGE)


def _twin() -> Send:
    from everturn.twin.build import build_twin
    from everturn.twin.options import TwinOptions
    from everturn.twin.upstream import make_twin_send

    # A resumed conversation has signatures made by the twin of another process, and its ids must stay unique.
    options = TwinOptions(foreign_signatures="accept")
    twin = make_twin_send(build_twin(clock="real", options=options, seed=secrets.randbits(32)))

    def send(body: bytes, betas: Sequence[str]) -> RawResponse:
        answered = twin(body, betas)
        return RawResponse(answered.body, mark_practice(answered.request_id))

    return send


def _could_be_keys(keys: ProviderSettings) -> bool:
    """HTTP headers take no spaces or non-ASCII characters; the SDK would report a connection error."""
    given = (keys.api_key.reveal(), keys.auth_token.reveal())
    return all(key.isascii() and key.isprintable() and " " not in key for key in given)


def _raise_on_send(why: str) -> Send:
    def send(body: bytes, betas: Sequence[str]) -> RawResponse:
        raise UsageError(why)

    return send


# ── errors ───────────────────────────────────────────────────────────────────────────────────────


class ErrorAdvice(NamedTuple):
    """Which errors of the provider a row is for, and what to do about them. Status 0 means no response."""

    statuses: Sequence[int]
    advice: str
    # Must occur in the kind or the message of the error.
    contains: str = ""

    def matches(self, error: UpstreamError) -> bool:
        return error.status in self.statuses and self.contains in f"{error.kind} {error.message}"


# The first row that matches is used. Kinds and statuses: api-facts 6.
ERROR_ADVICE: Final = (
    ErrorAdvice(
        (401,), "The API rejected the key. Check ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN, then start again."
    ),
    ErrorAdvice((402,), "The account has no credit left. Add credit, then /retry."),
    ErrorAdvice(
        (403,), "This key lacks permission for the request. Use another key, or ask its owner for access."
    ),
    ErrorAdvice(
        (404,),
        "Model not found, or not available for this key. Choose another with /model NAME, then /retry.",
        "model",
    ),
    ErrorAdvice((404,), "The API was not found at this address. Check ANTHROPIC_BASE_URL, then start again."),
    ErrorAdvice((413,), "The request is too large. Send less at once."),
    ErrorAdvice((429,), "Rate limit reached. Wait a moment, then /retry."),
    ErrorAdvice((408, 504), "The request timed out. Try again with /retry."),
    ErrorAdvice(range(500, 1000), "The API had an internal error. Wait a moment, then /retry."),
    ErrorAdvice((0,), "No answer in time. Check the network, then /retry.", "imeout"),
    ErrorAdvice((0,), "Could not connect to the API. Check the network and ANTHROPIC_BASE_URL, then /retry."),
)
DEFAULT_ADVICE: Final = (
    "The API rejected the request. /compact or /clear may help; the conversation is saved."
)


def describe_error(problem: UpstreamError) -> str:
    """What to do, then the provider's message."""
    advice = next((row.advice for row in ERROR_ADVICE if row.matches(problem)), DEFAULT_ADVICE)
    return f"{advice} ({problem})"
