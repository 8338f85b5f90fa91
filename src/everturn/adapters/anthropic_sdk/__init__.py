"""A middleware for the Anthropic SDK."""

from importlib.util import find_spec

from everturn.errors import UsageError

if find_spec("anthropic") is None:
    raise UsageError("The middleware needs the Anthropic SDK; install it with `everturn[anthropic]`.")
