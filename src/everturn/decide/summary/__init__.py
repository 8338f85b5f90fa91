"""The summary without a model: read the facts once, write nine sections within a budget (BY-5)."""

from everturn.decide.summary.settings import Form, SummarySettings
from everturn.decide.summary.summarize import Summary, summarize
from everturn.decide.summary.writing.fitting import Dropped

__all__ = ["Dropped", "Form", "Summary", "SummarySettings", "summarize"]
