"""The drawing of the marks in the manual is held to the settings."""

import re
from pathlib import Path

from everturn.decide.compact.settings import DEFAULTS
from everturn.measure.model_table import MODELS
from everturn.measure.thresholds import ThresholdSettings, compute_thresholds

PAGE = Path(__file__).parents[3] / "docs" / "compaction.md"


def test_the_marks_in_the_manual_are_those_of_a_200k_window():
    drawing = PAGE.read_text(encoding="utf-8").split("```")[1]
    numbers = [float(found.replace(",", "")) for found in re.findall(r"\s\s([\d.,]+)(?=\s|$)", drawing)]
    marks, given = compute_thresholds(200_000, max(model.max_output for model in MODELS)), ThresholdSettings()
    assert numbers == [
        200_000,
        given.output_reserve,
        marks.effective,
        given.auto_margin,
        marks.auto,
        DEFAULTS.cold_share,
        round(marks.auto * DEFAULTS.cold_share),
    ]
