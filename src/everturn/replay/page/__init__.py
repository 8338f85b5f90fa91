"""The runs of a replay as one HTML page that works offline (RP-10)."""

from everturn.replay.page.document import render_page
from everturn.replay.page.session_comparison import SessionComparison, build_session_comparison

__all__ = ["SessionComparison", "build_session_comparison", "render_page"]
