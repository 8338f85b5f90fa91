"""The summary without a model: read the facts once, write nine sections within a budget (BY-5)."""

from everturn.decide.extractive.settings import CompactionForm, SummarySettings
from everturn.decide.extractive.summarize import Summary, summarize
from everturn.decide.extractive.writing.fitting import DroppedEntry

__all__ = ["CompactionForm", "DroppedEntry", "Summary", "SummarySettings", "summarize"]
