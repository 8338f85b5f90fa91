"""Opens a summary request whose beginning was left out because the whole did not fit (CP-9)."""

from everturn.history.blocks import text_block

TRUNCATED = text_block("[Earlier conversation was left out here: with it, this request was too long]")
