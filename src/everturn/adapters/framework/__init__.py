"""Shared by the adapters of agent frameworks: converts between their messages and the API's."""

from everturn.adapters.framework.adapter import FrameworkAdapter
from everturn.adapters.framework.messages import (
    FrameworkMessage,
    TracedBlocks,
    build_body,
    make_opaque_block,
    trace_blocks,
)
from everturn.adapters.framework.replies import (
    FrameworkReply,
    FrameworkUsage,
    build_response,
    find_answering_model,
    is_bad_request,
    is_too_long,
    may_have_cost,
)

__all__ = [
    "FrameworkAdapter",
    "FrameworkMessage",
    "FrameworkReply",
    "FrameworkUsage",
    "TracedBlocks",
    "build_body",
    "build_response",
    "find_answering_model",
    "is_bad_request",
    "is_too_long",
    "make_opaque_block",
    "may_have_cost",
    "trace_blocks",
]
