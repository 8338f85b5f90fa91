"""What opens a conversation whose beginning is not in the record: the API wants a user's message first."""

from everturn.history.blocks import text_block

BEGINNING = text_block("[The beginning of this conversation is not in the record]")
