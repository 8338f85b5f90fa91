"""The way to a model: the API where there is a key, otherwise a twin in this process; its errors in words.

A way that cannot be taken (no package, no key) is found out when it is first needed, so that a conversation
can always be opened, looked at and kept.
"""

import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from everturn.errors import UsageError
from everturn.session.config.shape import ProviderSettings as Keys
from everturn.session.upstream import RawResponse, Send, UpstreamError

if TYPE_CHECKING:
    import anthropic

ModelChoice = Literal["whatever there is", "twin"]

_TWIN: Final = "the twin, an agent that follows rules. Let it change only what you can lose"
TWIN_WITHOUT_KEY: Final = f"No key is set: this is {_TWIN}; set ANTHROPIC_API_KEY to talk to a model."
TWIN_CHOSEN: Final = f"This is {_TWIN}."
NO_PACKAGE: Final = (
    "A key is set, but the package 'anthropic' is not installed: pip install 'everturn[chat]' brings it. "
    "Without a model: everturn chat --twin."
)
INVALID_KEY: Final = (
    "What ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN holds is no key: it has a blank, or a letter that no "
    "key has. Set it again, and start again."
)


class ModelConnection(NamedTuple):
    """One of `client` and `send`, as `Session.open` takes them; `says` is what a person should know of it."""

    client: "anthropic.Anthropic | None" = None
    send: Send | None = None
    says: str = ""


def connect_to_model(keys: Keys, wanted: ModelChoice = "whatever there is") -> ModelConnection:
    has_key = bool(keys.api_key or keys.auth_token)
    if wanted == "twin" or not has_key:
        unused = " ANTHROPIC_BASE_URL is not used without a key." if keys.base_url else ""
        return ModelConnection(
            send=_twin(), says=TWIN_CHOSEN if wanted == "twin" else TWIN_WITHOUT_KEY + unused
        )
    if not _could_be_keys(keys):
        return ModelConnection(send=_raise_on_send(INVALID_KEY), says=INVALID_KEY)
    try:
        import anthropic
    except ModuleNotFoundError:
        return ModelConnection(send=_raise_on_send(NO_PACKAGE), says=NO_PACKAGE)
    client = anthropic.Anthropic(
        api_key=keys.api_key.reveal() or None,
        auth_token=keys.auth_token.reveal() or None,
        base_url=keys.base_url or None,
    )
    return ModelConnection(client=client)


def _twin() -> Send:
    from everturn.twin.build import build_twin
    from everturn.twin.options import TwinOptions
    from everturn.twin.upstream import make_twin_send

    # A conversation that is resumed was held with the twin of another process: its signatures are not ours,
    # and its ids must not come again.
    options = TwinOptions(foreign_signatures="accept")
    return make_twin_send(build_twin(clock="real", options=options, seed=secrets.randbits(32)))


def _could_be_keys(keys: Keys) -> bool:
    """A header takes neither blanks nor letters beyond ASCII; the SDK would call that a lost connection."""
    given = (keys.api_key.reveal(), keys.auth_token.reveal())
    return all(key.isascii() and key.isprintable() and " " not in key for key in given)


def _raise_on_send(why: str) -> Send:
    def send(body: bytes, betas: Sequence[str]) -> RawResponse:
        raise UsageError(why)

    return send


# ── errors ───────────────────────────────────────────────────────────────────────────────────────


class ErrorAdvice(NamedTuple):
    """An error of the provider: which ones, and what to do about them."""

    fits: Callable[[UpstreamError], bool]
    advice: str


# The first row that fits is told. Kinds and statuses: api-facts 6.
ERROR_ADVICE: Final = (
    ErrorAdvice(
        lambda error: error.status == 401,
        "The API does not know this key. Look at ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN, and start again.",
    ),
    ErrorAdvice(lambda error: error.status == 402, "The account has no credit left. Add some, then /retry."),
    ErrorAdvice(lambda error: error.status == 403, "This key may not do that. Ask whoever gave it to you."),
    ErrorAdvice(
        lambda error: error.status == 404 and "model" in error.message,
        "There is no such model, or not for this key. Choose another with /model NAME, then /retry.",
    ),
    ErrorAdvice(
        lambda error: error.status == 404,
        "Nothing answers there. Look at ANTHROPIC_BASE_URL, then start again.",
    ),
    ErrorAdvice(lambda error: error.status == 413, "That was too much at once. Say it in smaller parts."),
    ErrorAdvice(lambda error: error.status == 429, "Too many requests for now. Wait a little, then /retry."),
    ErrorAdvice(lambda error: error.status in (408, 504), "The answer took too long. Try again with /retry."),
    ErrorAdvice(
        lambda error: error.status >= 500, "The API has trouble of its own. Wait a little, then /retry."
    ),
    ErrorAdvice(
        lambda error: error.status == 0 and "imeout" in error.kind,
        "No answer came in time. Look at the network, then /retry.",
    ),
    ErrorAdvice(
        lambda error: error.status == 0,
        "There is no connection to the API. Look at the network and at ANTHROPIC_BASE_URL, then /retry.",
    ),
)
DEFAULT_ADVICE: Final = "The API refused the request. /compact or /clear may help; what was said is kept."


def describe_error(problem: UpstreamError) -> str:
    """What to do, then what the provider said."""
    advice = next((row.advice for row in ERROR_ADVICE if row.fits(problem)), DEFAULT_ADVICE)
    return f"{advice} ({problem})"
