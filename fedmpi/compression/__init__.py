"""What a client does to its update before it uploads it, and what the server makes of it: C(Δ_i) in exact bytes.

A codec turns Δ (d,) float32 into a payload of `nbytes` bytes, the same for every update, and back. Decoding a payload
gives the same bits wherever it is done, and rounding at random draws from the stream (run.seed, "rounding", t, i): the
server may add what it decodes, or a rank what it would have sent.

    none       no codec: the update travels as it is                                             4d bytes
    float16    to nearest, in units of a power of two that keeps the largest entry in range       2d + 4
    bfloat16   to nearest: the upper half of a float32                                            2d
    int8       at random to one of two neighbours, unbiased; one unit for 1,024 entries           d + 4 ⌈d/1024⌉
    topk       the k = ⌈share · d⌉ entries largest in size, with their places                     8k

Updates that are not finite are not hidden: a payload made from one decodes to an update with NaN in it. Entries
above 2¹²⁷ may round to an infinity; the norm of what is added tells either way.
"""

from fedmpi.compression.codecs import Codec, make_codec
from fedmpi.compression.upload import UploadEncoder

__all__ = ["Codec", "UploadEncoder", "make_codec"]
