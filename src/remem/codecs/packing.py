"""Whole numbers of a few bits, packed: eight of them in as many bytes as each has bits."""

import numpy as np

from remem.codecs.codec import Codes

GROUP = 8


def packed_size(count: int, bits: int) -> int:
    """Bytes of `count` numbers."""
    return -(-count * bits // 8)


def pack_bits(numbers: Codes, bits: int) -> Codes:
    """Packs numbers below 2^bits, (n, m) -> (n, ceil(m bits / 8)), the first number in the highest bits."""
    if bits == 8:
        return numbers
    rows, count = numbers.shape
    groups = np.zeros((rows, -(-count // GROUP) * GROUP), np.uint8)
    groups[:, :count] = numbers
    words = np.zeros((rows, groups.shape[1] // GROUP), np.uint64)
    for place in range(GROUP):
        words = (words << np.uint64(bits)) | groups[:, place::GROUP].astype(np.uint64)
    packed = np.empty((rows, words.shape[1], bits), np.uint8)
    for place in range(bits):
        packed[:, :, place] = (words >> np.uint64(8 * (bits - 1 - place))).astype(np.uint8)
    return packed.reshape(rows, -1)[:, : packed_size(count, bits)]


def unpack_bits(packed: Codes, bits: int, count: int) -> Codes:
    """The inverse of `pack_bits`, for `count` numbers in each row."""
    if bits == 8:
        return packed
    rows = len(packed)
    groups = -(-count // GROUP)
    padded = packed
    if packed.shape[1] < groups * bits:
        padded = np.zeros((rows, groups * bits), np.uint8)
        padded[:, : packed.shape[1]] = packed
    words = np.zeros((rows, groups), np.uint64)
    for place in range(bits):
        words = (words << np.uint64(8)) | padded[:, place::bits]
    numbers = np.empty((rows, groups, GROUP), np.uint8)
    mask = np.uint64(2**bits - 1)
    for place in range(GROUP):
        numbers[:, :, place] = (words >> np.uint64(bits * (GROUP - 1 - place))) & mask
    return numbers.reshape(rows, -1)[:, :count]
