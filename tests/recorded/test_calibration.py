"""How good the estimate is on real sessions: what the manual says about it is computed here."""

from statistics import median, quantiles

import pytest
from recorded.conftest import DATA, ROOT

from everturn.measure.calibration import Calibration
from everturn.session.recorded import open_session


@pytest.fixture(scope="module")
def calibrations(files: dict[str, bytes]) -> list[Calibration]:
    """Of the main conversation of each file that has enough calls to learn from and to be judged by."""
    found = [open_session(str(DATA / name)).calibration for name in files]
    return [each for each in found if each.error_after is not None]


def test_correcting_makes_the_estimate_of_no_session_worse(calibrations: list[Calibration]):
    assert [each for each in calibrations if (each.error_after or 0) > (each.error_before or 0)] == []


def test_the_manual_says_how_good_the_estimate_is(calibrations: list[Calibration]):
    low, middle, high = quantiles([each.ratio for each in calibrations], n=4)
    before, after = (
        median(error or 0 for error in errors)
        for errors in zip(*((each.error_before, each.error_after) for each in calibrations), strict=True)
    )
    page = " ".join((ROOT / "docs" / "measure.md").read_text(encoding="utf-8").split())
    for said in (
        f"Over {len(calibrations)} recordings",
        f"{middle:.2f} times the estimate in the median (quartiles {low:.2f} and {high:.2f})",
        f"falls from {before:.0%} to {after:.0%}".replace("%", " %"),
    ):
        assert said in page
