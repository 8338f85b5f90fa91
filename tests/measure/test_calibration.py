"""How far the estimate is off, learned from the session's own usage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everturn.history.blocks import text_block
from everturn.history.edits import Cleared, Compacted, Offloaded, Pinned, Trimmed
from everturn.history.records import SYNTHETIC, Record, ReplyMeta, Usage
from everturn.measure.calibration import IDENTITY, MIN_SAMPLES, Calibration, Calibrator

OPUS, HAIKU = "claude-opus-4-5", "claude-haiku-4-5"


class Session:
    """A made-up session whose context grows as it is told."""

    def __init__(self) -> None:
        self.calibrator = Calibrator()
        self.context = 20_000
        self.calls = 0

    def call(self, model: str = OPUS, message: str = "") -> None:
        self.calls += 1
        usage = Usage(cache_read_input_tokens=self.context, output_tokens=1)
        answer = ReplyMeta(message_id=message or f"m{self.calls}", model=model, usage=usage)
        self.calibrator.add(Record(kind="assistant", uuid=f"a{self.calls}", reply=answer))

    def grow(self, estimated: int, reported: int) -> None:
        self.calls += 1
        blocks = (text_block("x" * 4 * estimated),)
        self.calibrator.add(Record(kind="user", uuid=f"u{self.calls}", blocks=blocks))
        self.context += reported

    def pairs(self, *pairs: tuple[int, int], model: str = OPUS) -> Calibration:
        self.call(model)
        for estimated, reported in pairs:
            self.grow(estimated, reported)
            self.call(model)
        return self.calibrator.calibration()


@pytest.mark.spec("TOK-7")
def test_the_ratio_is_reported_over_estimated_growth():
    learned = Session().pairs(*[(100, 150), (300, 330)] * 5)
    assert (learned.ratio, learned.samples) == (1.2, 10)
    assert learned.corrected(1_000) == 1_200


@pytest.mark.spec("TOK-7")
def test_too_few_samples_correct_nothing():
    assert Session().pairs(*[(100, 150)] * (MIN_SAMPLES - 1)) == Calibration(1.0, MIN_SAMPLES - 1)
    assert Session().pairs(*[(100, 150)] * MIN_SAMPLES) == Calibration(1.5, MIN_SAMPLES)
    assert Calibrator().calibration() == IDENTITY
    assert IDENTITY.corrected(777) == 777


@pytest.mark.spec("TOK-7")
def test_the_error_is_that_of_predicting_each_pair_before_it_is_learned():
    learned = Session().pairs(*[(100, 200)] * MIN_SAMPLES, (100, 250), (100, 200))
    ratio_before_the_last = (MIN_SAMPLES * 200 + 250) / ((MIN_SAMPLES + 1) * 100)
    assert learned.error_before == pytest.approx((150 / 250 + 100 / 200) / 2)
    assert learned.error_after == pytest.approx((50 / 250 + abs(ratio_before_the_last * 100 - 200) / 200) / 2)


@pytest.mark.parametrize(("estimated", "reported"), [(100, 0), (100, -500), (0, 100), (100, 801), (1_000, 1)])
def test_a_pair_that_cannot_be_about_the_tokenizer_is_left_out(estimated: int, reported: int):
    assert Session().pairs((estimated, reported)).samples == 0


def test_a_pair_at_the_edge_of_belief_is_used():
    assert Session().pairs((100, 800)).samples == 1
    assert Session().pairs((800, 100)).samples == 1


@pytest.mark.parametrize(
    "between",
    [
        Record(kind="system", uuid="b", subtype="compact_boundary", edit=Compacted()),
        Record(kind="system", uuid="b", subtype="compact_boundary"),
        Record(kind="system", uuid="c", edit=Cleared(("c1",))),
        Record(kind="system", uuid="o", edit=Offloaded("c1", "/tmp/c1", "", 9)),
        Record(kind="system", uuid="t", edit=Trimmed("u1")),
    ],
)
def test_nothing_is_learned_across_an_edit_of_what_is_seen(between: Record):
    session = Session()
    session.call()
    session.grow(100, 150)
    session.calibrator.add(between)
    session.call()
    assert session.calibrator.calibration().samples == 0


def test_a_pin_hides_nothing_and_interrupts_nothing():
    session = Session()
    session.call()
    session.grow(100, 150)
    session.calibrator.add(Record(kind="system", uuid="p", edit=Pinned("words")))
    session.call()
    assert session.calibrator.calibration().samples == 1


def test_each_model_is_learned_apart():
    session = Session()
    session.pairs(*[(100, 150)] * MIN_SAMPLES)
    session.grow(100, 700)
    newest = session.pairs(*[(100, 120)] * MIN_SAMPLES, model=HAIKU)
    assert newest == session.calibrator.calibration(HAIKU) == Calibration(1.2, MIN_SAMPLES)
    assert session.calibrator.calibration(OPUS) == Calibration(1.5, MIN_SAMPLES)


def test_the_pieces_of_one_response_are_one_call():
    session = Session()
    session.call(message="m")
    session.grow(100, 150)
    session.call(message="m")
    assert session.calibrator.calibration().samples == 0
    session.grow(50, 75)
    session.call(message="n")
    assert session.calibrator.calibration().samples == 1


def test_a_synthetic_reply_is_no_call():
    session = Session()
    session.call()
    session.grow(100, 150)
    session.call(model=SYNTHETIC)
    assert session.calibrator.calibration().samples == 0
    session.call()
    assert session.calibrator.calibration().samples == 1


@pytest.mark.spec("TOK-7")
@given(
    st.floats(1.1, 3), st.lists(st.integers(200, 5_000), min_size=MIN_SAMPLES + 1, max_size=MIN_SAMPLES + 9)
)
def test_a_steady_bias_is_found_and_removed(bias: float, sizes: list[int]):
    learned = Session().pairs(*[(size, round(size * bias)) for size in sizes])
    assert learned.ratio == pytest.approx(bias, rel=0.01)
    assert learned.error_before is not None
    assert learned.error_after is not None
    assert learned.error_after < 0.01 < learned.error_before
