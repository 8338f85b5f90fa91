"""A middleware for LangChain agents."""

from importlib.util import find_spec

from everturn.errors import UsageError

if find_spec("langchain") is None:
    raise UsageError("This middleware needs LangChain; install it with `everturn[langchain]`.")

from everturn.adapters.langchain.middleware import EverturnMiddleware

__all__ = ["EverturnMiddleware"]
