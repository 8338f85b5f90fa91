"""Replaces a reply that was only thinking, once that thinking may no longer be sent (PC-16)."""

from everturn.history.blocks import text_block

UNSPOKEN = text_block("[The thinking of this turn is not shown]")
