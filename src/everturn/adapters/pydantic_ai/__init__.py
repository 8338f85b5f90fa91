"""A capability for pydantic-ai agents."""

from importlib.util import find_spec

from everturn.errors import UsageError

if find_spec("pydantic_ai") is None:
    raise UsageError("This capability needs pydantic-ai; install it with `everturn[pydantic-ai]`.")

from everturn.adapters.pydantic_ai.capability import Everturn

__all__ = ["Everturn"]
