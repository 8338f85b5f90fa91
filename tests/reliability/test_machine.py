"""Sessions on a real disk beside a plain list: hypothesis chooses the steps, and a seed chooses others."""

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from reliability.kinds import KINDS
from reliability.machine import Walk
from reliability.score import tally

FIRST = 20_261_115
SHARES = 2
# Walks of a dozen steps in each share: some thousand steps, beside those that hypothesis chooses;
# `make soak` walks on.
EACH = 40
SHARE = st.floats(0, 0.999)


class Sessions(RuleBasedStateMachine):
    """Every rule is one step of `Walk`, on the session and on the list."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory(prefix="everturn-machine-")
        self.walk = Walk(Path(self.folder.name))

    @rule(speak=st.booleans())
    def hooks(self, speak: bool) -> None:
        self.walk.speaks = lambda: speak

    @rule()
    def append(self) -> None:
        self.walk.append()

    @rule()
    def clear(self) -> None:
        self.walk.clear()

    @rule()
    def compact(self) -> None:
        self.walk.compact()

    @rule(share=SHARE)
    def compact_up_to(self, share: float) -> None:
        self.walk.compact_up_to(share)

    @rule(share=SHARE)
    def compact_from(self, share: float) -> None:
        self.walk.compact_from(share)

    @rule(share=SHARE)
    def rewind(self, share: float) -> None:
        self.walk.rewind(share)

    @rule(share=SHARE)
    def rewind_to_reply(self, share: float) -> None:
        self.walk.rewind_to_reply(share)

    @rule(share=SHARE)
    def rewind_to_hidden(self, share: float) -> None:
        self.walk.rewind_to_hidden(share)

    @rule(share=SHARE)
    def there_and_back(self, share: float) -> None:
        self.walk.there_and_back(share)

    @precondition(lambda self: self.walk.left)
    @rule(share=SHARE)
    def return_to_branch(self, share: float) -> None:
        self.walk.return_to_branch(share)

    @rule()
    def pin(self) -> None:
        self.walk.pin()

    @rule(rng=st.randoms(use_true_random=False), share=SHARE)
    def leave_and_return(self, rng: Random, share: float) -> None:
        self.walk.leave_and_return(rng.shuffle, share)

    @rule(rng=st.randoms(use_true_random=False), share=SHARE)
    def leave_compacted(self, rng: Random, share: float) -> None:
        self.walk.leave_compacted(rng.shuffle, share)

    @precondition(lambda self: self.walk.model.views)
    @rule()
    def undo(self) -> None:
        self.walk.undo()

    @rule()
    def resume(self) -> None:
        self.walk.resume()

    @rule(share=SHARE)
    def crash(self, share: float) -> None:
        self.walk.crash(share)

    @rule()
    def fork(self) -> None:
        self.walk.fork()

    @invariant()
    def both_say_the_same(self) -> None:
        self.walk.check()

    def teardown(self) -> None:
        self.walk.check_file()
        self.walk.close()
        self.folder.cleanup()


@pytest.mark.spec("TR-3", "TR-5", "TR-10", "CP-30")
def test_a_session_says_what_a_plain_list_says():
    run_state_machine_as_test(Sessions, settings=settings(settings.default, stateful_step_count=30))


@pytest.mark.spec("TR-3", "TR-5", "TR-10", "CP-30")
@pytest.mark.parametrize("share", range(SHARES))
def test_walks_by_chance_say_what_a_plain_list_says(share, settle):
    first = FIRST + share * EACH
    done = tally(KINDS["steps"], range(first, first + EACH))
    settle(done.row, first)
    assert min(done.counts[what] for what in ("Compacted", "Undone", "Cleared", "Offloaded", "faults")) > 0
