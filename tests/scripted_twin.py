"""Options of a twin for tests that script every reply, summaries included.

Here the twin stands for a model that says exactly what the test says, with thinking that can be read. Some of
these tests use made-up betas and images, so those are accepted.
"""

from typing import Any

from everturn.twin.options import TwinOptions


def scripted_options(**changes: Any) -> TwinOptions:
    chosen: dict[str, Any] = {
        "scripted_summaries": "in_order",
        "thinking_display": "summarized",
        "unknown_betas": "accept",
        "broken_base64": "accept",
        "mislabeled_images": "accept",
    }
    return TwinOptions(**(chosen | changes))
