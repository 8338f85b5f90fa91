"""The size of a context, as every surface shows it (TOK-5, TOK-6, TOK-7)."""

import msgspec

from everturn.measure.calibration import MIN_SAMPLES, Calibration
from everturn.measure.meter import ContextSize, Meter


def measure_context(
    meter: Meter, *, overhead: int | None, preamble: int = 0, calibration: Calibration | None = None
) -> ContextSize:
    """What the API reported and an estimate of what came since. If nothing was reported for this view,
    system prompt and tools are added: as an earlier usage told (`overhead`), else as estimated (`preamble`).

    A calibration with enough samples corrects the estimate; without one it is padded.
    """
    size = meter.size()
    if size.basis == "estimate":
        known = overhead is not None
        size = meter.estimate(preamble=0 if known else preamble, reported=overhead if known else 0)
    if calibration is None or calibration.samples < MIN_SAMPLES:
        return size
    # What the provider has counted is right as it is.
    tail = size.kept + calibration.corrected(size.rough_tail - size.kept)
    return msgspec.structs.replace(size, tokens=size.reported + tail, estimated_tail=tail)
