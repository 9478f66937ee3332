"""The order of the samples: a pseudo-random permutation for every epoch that is computed, not stored.

The n-th sample of a run depends on the seed and n alone, so that a resumed run goes on where it stopped, with however
many ranks, and no list as long as the data is ever held.
"""

from __future__ import annotations

_MASK = 2**64 - 1
_ROUNDS = 6


def _mix(value: int) -> int:
    """SplitMix64 (Steele, Lea and Flood 2014): every bit of the input moves every bit of the output."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def shuffled(position: int, size: int, key: int) -> int:
    """Where `position` of 0 … size-1 goes: a Feistel network over the next even number of bits, walked until inside."""
    half = max(1, ((size - 1).bit_length() + 1) // 2)
    mask = (1 << half) - 1
    while True:
        left, right = position >> half, position & mask
        for number in range(_ROUNDS):
            left, right = right, left ^ (_mix(key ^ _mix(right * _ROUNDS + number)) & mask)
        position = left << half | right
        if position < size:
            return position


def sample(number: int, size: int, seed: int) -> int:
    """The index into the data of the run's `number`-th sample; every epoch has each index once."""
    epoch, position = divmod(number, size)
    return shuffled(position, size, _mix(_mix(seed & _MASK) + epoch))
