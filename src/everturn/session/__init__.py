"""WHO DOES IT? Everything around the pure core that touches the world."""
