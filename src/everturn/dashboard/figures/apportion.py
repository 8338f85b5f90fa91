"""Whole shares that add up exactly: the largest remainder decides who gets what is left over."""

from collections.abc import Sequence


def apportion(weights: Sequence[int], total: int) -> tuple[int, ...]:
    """`total` divided in proportion to the weights, in whole numbers that sum up to it.

    Nobody gets more than one away from the exact share. Without any weight everything stays at zero.
    """
    whole = sum(weights)
    if whole <= 0 or total <= 0:
        return (0,) * len(weights)
    shares = [weight * total // whole for weight in weights]
    left = total - sum(shares)
    # Equal remainders go to whoever comes first, so that equal input is drawn equally.
    by_remainder = sorted(range(len(weights)), key=lambda at: (-(weights[at] * total % whole), at))
    for at in by_remainder[:left]:
        shares[at] += 1
    return tuple(shares)
