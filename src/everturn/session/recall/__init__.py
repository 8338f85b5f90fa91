"""Everything that was cleared or summarized stays addressable: search it, open it, expand it (BY-4)."""
