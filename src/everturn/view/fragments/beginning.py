"""Opens a conversation whose beginning is not recorded: the API requires a user message first."""

from everturn.history.blocks import text_block

BEGINNING = text_block("[The beginning of this conversation is not in the record]")
