"""The runs of a replay as one HTML page that people can open, send and read offline (RP-10)."""

from everturn.replay.page.chapters import Chapter, chapter_of
from everturn.replay.page.document import page

__all__ = ["Chapter", "chapter_of", "page"]
