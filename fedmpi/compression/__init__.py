"""Compression of updates: what a client uploads is C(Δ_i), and its size in bytes is exact.

A codec encodes Δ, (d,) float32, in `nbytes` bytes, the same for every update, and decodes it to the same bits on every
rank: the server may add what it has received, or a worker what it would have sent. Random rounding draws from the
stream (run.seed, "rounding", t, i).

    none       no codec: the update is sent as it is                                              4d bytes
    float16    to nearest, in units of a power of two that keeps the largest entry in range       2d + 4
    bfloat16   to nearest: the upper half of a float32                                            2d
    int8       at random to one of two neighbours, unbiased; one unit for 1,024 entries           d + 4 ⌈d/1024⌉
    topk       the k = ⌈comm.topk · d⌉ entries of largest magnitude, with their indices           8k

An update that is not finite decodes to one with NaN in it, so the server sees it. Entries above 2¹²⁷ may round to
infinity, which the norm of the decoded update shows as well.

`upload.UploadEncoder` is what a rank uses. A new codec is one class in `codecs` and one line in `registry`.
"""

from fedmpi.compression.codecs import Codec
from fedmpi.compression.registry import CODECS, make_codec
from fedmpi.compression.upload import UploadEncoder

__all__ = ["CODECS", "Codec", "UploadEncoder", "make_codec"]
