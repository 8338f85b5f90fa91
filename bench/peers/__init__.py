"""everturn beside its peers, on the same conversations (`make bench-peers`). The page: docs/peers.md."""
