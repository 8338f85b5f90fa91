"""Dollars as text: one format in every table, page and message."""

from decimal import Decimal
from typing import Final

_WHOLE: Final = Decimal(1)
# Four decimals would show this amount, and every smaller one, as nothing.
_LEAST: Final = Decimal("0.00005")


def format_dollars(amount: Decimal | float) -> str:
    """Two decimals from one dollar on, four below; a very small amount is not shown as nothing."""
    value = Decimal(str(amount)) if isinstance(amount, float) else Decimal(amount)
    size, sign = abs(value), "-" if value < 0 else ""
    if not size:
        return "$0.00"
    if size <= _LEAST:
        return f"{'>' if sign else '<'}{sign}$0.0001"
    return f"{sign}${size:,.2f}" if size >= _WHOLE else f"{sign}${size:.4f}"
