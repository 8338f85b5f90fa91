"""The engine as a middleware of the Anthropic SDK."""

from importlib.util import find_spec

from everturn.errors import UsageError

if find_spec("anthropic") is None:
    raise UsageError("The middleware is for the Anthropic SDK; install it with `everturn[anthropic]`.")
