"""Everything that was cleared or summarized stays addressable: search it, open it, unfold it (BY-4)."""
