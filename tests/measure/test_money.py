"""Dollars as text."""

from decimal import Decimal

import pytest

from everturn.measure.money import format_dollars


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "$0.00"), (0.0, "$0.00"), (Decimal("0.00004"), "<$0.0001"), (0.00004, "<$0.0001"),
        (-0.00004, ">-$0.0001"), (Decimal("0.00005"), "<$0.0001"), (Decimal("0.000051"), "$0.0001"),
        (Decimal("0.1234"), "$0.1234"), (0.12345, "$0.1234"), (-0.5, "-$0.5000"),
        (1, "$1.00"), (Decimal("1234.567"), "$1,234.57"), (-1234.5, "-$1,234.50"),
    ],
)  # fmt: skip
def test_dollars_have_as_many_digits_as_say_something(amount, text):
    assert format_dollars(amount) == text
