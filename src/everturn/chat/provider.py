"""The way to a model: the API where there is a key, otherwise a twin in this process; its errors in words.

A way that cannot be taken (no package, no key) is found out when it is first needed, so that a conversation
can always be opened, looked at and kept.
"""

import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from everturn.errors import UsageError
from everturn.session.config.shape import Provider as Keys
from everturn.session.upstream import Answered, Send, UpstreamError

if TYPE_CHECKING:
    import anthropic

Wanted = Literal["whatever there is", "twin"]

_TWIN: Final = "the twin, an agent that follows rules. Let it change only what you can lose"
TWIN: Final = f"No key is set: this is {_TWIN}; set ANTHROPIC_API_KEY to talk to a model."
CHOSEN: Final = f"This is {_TWIN}."
NO_PACKAGE: Final = (
    "A key is set, but the package 'anthropic' is not installed: pip install 'everturn[chat]' brings it. "
    "Without a model: everturn chat --twin."
)
NO_KEY: Final = (
    "What ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN holds is no key: it has a blank, or a letter that no "
    "key has. Set it again, and start again."
)


class Way(NamedTuple):
    """One of `client` and `send`, as `Session.open` takes them; `says` is what a person should know of it."""

    client: "anthropic.Anthropic | None" = None
    send: Send | None = None
    says: str = ""


def way_to_model(keys: Keys, wanted: Wanted = "whatever there is") -> Way:
    has_key = bool(keys.api_key or keys.auth_token)
    if wanted == "twin" or not has_key:
        unused = " ANTHROPIC_BASE_URL is not used without a key." if keys.base_url else ""
        return Way(send=_twin(), says=CHOSEN if wanted == "twin" else TWIN + unused)
    if not _could_be_keys(keys):
        return Way(send=_nowhere(NO_KEY), says=NO_KEY)
    try:
        import anthropic
    except ModuleNotFoundError:
        return Way(send=_nowhere(NO_PACKAGE), says=NO_PACKAGE)
    client = anthropic.Anthropic(
        api_key=keys.api_key.reveal() or None,
        auth_token=keys.auth_token.reveal() or None,
        base_url=keys.base_url or None,
    )
    return Way(client=client)


def _twin() -> Send:
    from everturn.twin.build import build
    from everturn.twin.options import TwinOptions
    from everturn.twin.upstream import through_twin

    # A conversation that is resumed was held with the twin of another process: its signatures are not ours,
    # and its ids must not come again.
    options = TwinOptions(foreign_signatures="accept")
    return through_twin(build(clock="real", options=options, seed=secrets.randbits(32)))


def _could_be_keys(keys: Keys) -> bool:
    """A header takes neither blanks nor letters beyond ASCII; the SDK would call that a lost connection."""
    given = (keys.api_key.reveal(), keys.auth_token.reveal())
    return all(key.isascii() and key.isprintable() and " " not in key for key in given)


def _nowhere(why: str) -> Send:
    def send(body: bytes, betas: Sequence[str]) -> Answered:
        raise UsageError(why)

    return send


# ── errors ───────────────────────────────────────────────────────────────────────────────────────


class Trouble(NamedTuple):
    """An error of the provider: which ones, and what to do about them."""

    fits: Callable[[UpstreamError], bool]
    advice: str


# The first row that fits is told. Kinds and statuses: api-facts 6.
TROUBLES: Final = (
    Trouble(
        lambda error: error.status == 401,
        "The API does not know this key. Look at ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN, and start again.",
    ),
    Trouble(lambda error: error.status == 402, "The account has no credit left. Add some, then /retry."),
    Trouble(lambda error: error.status == 403, "This key may not do that. Ask whoever gave it to you."),
    Trouble(
        lambda error: error.status == 404 and "model" in error.message,
        "There is no such model, or not for this key. Choose another with /model NAME, then /retry.",
    ),
    Trouble(
        lambda error: error.status == 404,
        "Nothing answers there. Look at ANTHROPIC_BASE_URL, then start again.",
    ),
    Trouble(lambda error: error.status == 413, "That was too much at once. Say it in smaller parts."),
    Trouble(lambda error: error.status == 429, "Too many requests for now. Wait a little, then /retry."),
    Trouble(lambda error: error.status in (408, 504), "The answer took too long. Try again with /retry."),
    Trouble(lambda error: error.status >= 500, "The API has trouble of its own. Wait a little, then /retry."),
    Trouble(
        lambda error: error.status == 0 and "imeout" in error.kind,
        "No answer came in time. Look at the network, then /retry.",
    ),
    Trouble(
        lambda error: error.status == 0,
        "There is no connection to the API. Look at the network and at ANTHROPIC_BASE_URL, then /retry.",
    ),
)
REFUSED: Final = "The API refused the request. /compact or /clear may help; what was said is kept."


def in_words(problem: UpstreamError) -> str:
    """What to do, then what the provider said."""
    advice = next((row.advice for row in TROUBLES if row.fits(problem)), REFUSED)
    return f"{advice} ({problem})"
