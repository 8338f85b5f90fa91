"""What the adapters of agent frameworks share: their messages and the API's, there and back again."""

from everturn.adapters.framework.adapter import AdapterOptions, FrameworkAdapter, PolicyChoice
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
    is_bad_request,
    is_too_long,
    to_upstream_error,
)
from everturn.session.config.shape import DEFAULT_POLICY

__all__ = [
    "DEFAULT_POLICY",
    "AdapterOptions",
    "FrameworkAdapter",
    "FrameworkMessage",
    "FrameworkReply",
    "FrameworkUsage",
    "PolicyChoice",
    "TracedBlocks",
    "build_body",
    "build_response",
    "is_bad_request",
    "is_too_long",
    "make_opaque_block",
    "to_upstream_error",
    "trace_blocks",
]
