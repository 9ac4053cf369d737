"""Why a peer is faster, for the tables of losses."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from report.figures import Row


@dataclass(frozen=True)
class Reason:
    """Explanation of losses on one machine.

    Attributes:
        machine: Name of the machine, as in the tables.
        sizes: Patterns of `Row.size`, names of models or kernels, that lose for this reason; `*` stands for any text.
        text: What figures or a profile of the machine show.
        peers: Contenders that win for this reason; all of them if empty.
        name: The quantity that was measured.
    """

    machine: str
    sizes: tuple[str, ...]
    text: str
    peers: tuple[str, ...] = ()
    name: str = "a call"

    def explains(self, machine: str, row: Row) -> bool:
        """Return whether this is the reason for which the peer of `row` wins on `machine`."""
        is_peer = not self.peers or row.contender in self.peers
        is_row = row.name == self.name and any(fnmatchcase(row.size, pattern) for pattern in self.sizes)
        return self.machine == machine and is_peer and is_row


ZEN_4 = "AMD EPYC Zen 4"
ZEN_5 = "AMD EPYC Zen 5"
XEON = "Intel Xeon AMX"
"""Names of machines, as in the tables."""

SCALES_OF_ROWS = (
    "CTranslate2's weights have one scale for each row; Q8_0 has one for each block of 32, and ours adds the blocks in "
    "f32"
)
SHORT_ROWS = (
    "rows of 28 positions fill 1.75 of two vectors, and each group's images are packed; the peer's vectors are along "
    "channels"
)
"""Text of a reason that several machines share."""

PYTHON_KERNELS = {
    ("prefix_sum",): (
        "a copy of x to y takes 0.73 ms, ours 1.5 with one worker: 57 % are the pass that stores one element at a "
        "time, 26 % the sums of blocks before it; with two workers, whose blocks of 8 KiB alternate, both passes take "
        "twice the CPU time; blocks of 64 KiB take 1.4 ms with two workers, but 2.4 with one"
    ),
    ("layer_norm",): (
        "1.8 times the time of a copy of x to y: 65 % are the three loops, 10 % their last steps under masks, 21 % the "
        "sums of lanes, which pass through workgroup memory, the mean and the scale, which the next loop waits for"
    ),
    ("layer_norm_backward",): (
        "37 % of the time are the sums of columns, which read 128 rows of x and dy again (1 MB), 8 % atomic additions; "
        "with 64 rows in a workgroup they are 17 % and 16 %"
    ),
    ("heat", "blur"): (
        "16 MiB read and 16 MiB written, in vectors: with one worker heat takes 1.74 to 1.89 ms, in turns with 1.64 to "
        "1.72 of Numba and 1.61 to 1.75 of clang, and blur 1.59 to 1.91, in turns with 1.41 to 1.60 and 1.51 to 1.64; "
        "one memcpy of the same bytes takes 0.83 ms"
    ),
    ("gathered_rows",): (
        "16,384 rows of 1 KiB, in tiles of 8 rows and 32 columns: four calls on other memory take 1.93 to 2.19 ms, in "
        "turns with 1.71 to 2.14 of clang, 2.02 to 2.15 of Numba and 1.86 to 2.17 of gcc"
    ),
    ("scattered_rows",): (
        "16 MiB read and rows of 32 MiB updated in random order: in turns 1.99 to 2.08 ms with one worker, clang 2.32 "
        "to 2.87"
    ),
    ("top_k",): (
        "each of the 8 elements takes two reductions over the 128 elements of a row and the numbers of those not yet "
        "found, 93 ns; loops in C and Numba pass over the row once and insert elements into a sorted list"
    ),
    ("histogram",): (
        "one load, one comparison and one increment for each element, in both: in turns 1.37 to 1.39 ms, clang 1.30 to "
        "1.31; each of our 256 workgroups also adds its 256 counts by atomic operations, C does so once"
    ),
}
"""Why loops in C or Numba are faster than kernels of examples/python_kernels on Zen 4, by the names of kernels."""

PYTHON_KERNELS_ON_XEON = {
    ("heat", "blur"): (
        "16 MiB read and 16 MiB written, where a copy takes 1.24 ms: with one worker heat takes 1.9 to 2.3 ms, in "
        "turns with 1.8 to 2.0 of Numba, which goes through whole rows; blocks of 8 x 512 elements instead of 4 x 512 "
        "take 0.96 of the time, of 4 x 1024 1.16. With two workers it was 0.87 ms, Numba 0.89, in another run. Blur "
        "divides by 5 where Numba multiplies by 0.2, 14 % of the time; in other runs it was ahead, 1.84 and 1.99 ms "
        "with one worker, 0.79 and 0.84 with two"
    ),
    ("layer_norm_backward",): (
        "C adds a row to the sums of columns while it is in the first-level cache; ours reads 128 rows of x and dy "
        "again for them, 1 MB from the second-level cache, in 26 % of the time; 29 % is the sum of a row, which waits "
        "for x, 23 % its moments, which wait for dy, 14 % the gradient, 2.5 % sums of lanes"
    ),
    ("gathered_rows",): (
        "measured with tiles of 8 rows and 32 columns, in which a row of 1 KiB is read in eight visits; tiles of 8 "
        "rows and 256 columns, as they are now, take 0.80 of the time (1.99 and 1.60 ms, two workers 0.88 and 0.71)"
    ),
    ("accelerations",): (
        "a square root and a division for each pair of bodies, correctly rounded; gcc and clang approximate the "
        "reciprocal root to 14 bits and refine it (-ffast-math): 16.8 M pairs in 7.1 ms, gcc 6.6"
    ),
    ("connected_components",): (
        "atomic operations on random words of 512 KiB, in both; not reproduced with one worker: 3.05 ms, in turns with "
        "3.07 of gcc and of clang"
    ),
    ("embedding_bag",): (
        "random rows of 256 bytes from 16 MiB; not reproduced: with two workers 0.91 ms, in turns with 1.14 of Numba"
    ),
}
"""Why loops in C or Numba are faster on the Intel Xeon, by the names of kernels. Copies are NumPy's, from memory."""

REASONS: tuple[Reason, ...] = (
    Reason(
        ZEN_4,
        (
            "llama *",
            "bert *",
            "unet 3x3 *",
            "gpt2 tied head 1x768x8192t",
            "gpt2 up *",
            "mobilenet 1x1 7x7x320 *",
            "int8_weight_only",
            "resnet18",
        ),
        "weights are arguments, in the order of the caller; as constants, laid out once, ours take no longer than the "
        "peer",
        peers=("iree", "jax", "numpy"),
    ),
    Reason(
        ZEN_4,
        ("ResNet-18*", "ResNet-50"),
        "3x3 windows and most 1x1 take 101 to 111 of the 118 GFLOP/s that multiply-adds in registers reach, 1x1 "
        "56x56x64 to 256 with its residual 85: it reads and writes 7 MB; 0.92 of the FMA rate in all, the peer 0.95",
        peers=("openvino",),
    ),
    Reason(
        ZEN_4,
        ("mlp_f16",),
        "410 against 435 us; 0.99 in a run of equal code on the same day",
        peers=("onnxruntime",),
    ),
    Reason(
        ZEN_4,
        ("MatMulNBits 32x2048x2048, zero points",),
        "1.063 against 1.045 ms in the run at 37e7a995f, with code that is equal for this product; this run had tests "
        "of low priority beside it",
        peers=("openvino, activations of 8 bits",),
    ),
    Reason(
        ZEN_4,
        ("dilated 3x3 *",),
        "ours computes the steps of windows that lie in the padding, too, at 0.96 of the FMA rate: 1.23 times the "
        "multiply-adds with dilation 4, 1.10 times with dilation 2",
        peers=("onnxruntime",),
    ),
    Reason(
        ZEN_4,
        ("grouped 3x3 groups 4 28x28x128 to 128 nchw",),
        SHORT_ROWS,
        peers=("onnxruntime",),
    ),
    Reason(
        ZEN_4,
        ("unet transposed 4x4*2 16x16x256 to 128",),
        "each of four phases has 17x17 positions, of which the result uses 16x16: 1.13 times the multiply-adds, at "
        "0.90 of the FMA rate",
        peers=("jax",),
    ),
    Reason(
        ZEN_4,
        ("gelu of a sum *",),
        "IREE's tanh is off by up to 4.9 units in the last place, ours by 1.8 (the limit is 2); from one exponential, "
        "without the polynomial for small arguments, it would take 0.82 of the time and be off by 2.5",
        peers=("iree",),
    ),
    Reason(
        ZEN_4,
        ("resnet50 1x1 7x7x2048 to 512 nchw",),
        "transposing the image takes 36 us of 1,010, and the product itself reaches 0.89 of the FMA rate",
        peers=("onnxruntime",),
    ),
    *(
        Reason(
            ZEN_4,
            ("Q8_0, *",),
            SCALES_OF_ROWS,
            peers=("ctranslate2",),
            name=name,
        )
        for name in ("prefill", "first token")
    ),
    Reason(
        ZEN_4,
        ("bf16, 1 sequence",),
        "without precision='bf16', which pays from 4 sequences on, ours has 17.3 tokens/s",
        peers=("llama.cpp",),
        name="decode",
    ),
    Reason(
        ZEN_4,
        ("*",),
        "a command in Python beside a compiled one: imports take 0.45 s of CPU time, three quarters of the smallest "
        "model; larger ones are read, fused and then compiled by LLVM",
        peers=("iree",),
        name="compile, cold",
    ),
    Reason(
        ZEN_5,
        (
            "llama *",
            "bert *",
            "whisper 3/2 3000x384 to 384 ncw",
            "resnet50 1x1 7x7x512 to 2048 nhwc",
            "resnet50 1x1/2 14x14x1024 to 2048 nhwc",
            "matmul_chain",
        ),
        "weights are arguments, in the order of the caller; as constants, laid out once, ours take 0.57 to 0.80 of the "
        "time, less than the peer",
        peers=("iree", "jax", "numpy"),
    ),
    Reason(
        ZEN_5,
        ("depthwise 3x3 7x7x960 to 960 nchw",),
        "33 us for 960 images of 7x7, 11 with channels last: nine short rows with their padding are stored for each "
        "image, and vectors along a row of 7 have 9 of 16 lanes empty; the peer's vectors are along channels",
        peers=("onnxruntime",),
    ),
    Reason(
        ZEN_5,
        ("transposed sum 1024x1024",),
        "rows of 4,096 bytes, of which a column of blocks falls into 16 sets of the second-level cache: by the pages "
        "of the arrays, one worker takes 377 to 1,050 us in different processes, two 316 to 541, JAX 400 to 592",
        peers=("jax",),
    ),
    Reason(
        ZEN_5,
        ("gelu of a sum *",),
        "IREE's tanh is off by up to 4.9 units in the last place, ours by 1.8 (the limit is 2)",
        peers=("iree",),
    ),
    Reason(
        ZEN_5,
        ("long k 8x65536x64",),
        "16.8 MB of weights, in huge pages, from the third-level cache: 391 to 520 us from process to process with "
        "constant weights, 423 to 511 with arguments, the peers 389 to 467",
        peers=("jax", "onnxruntime"),
    ),
    Reason(
        ZEN_5,
        ("grouped 3x3 groups 4 28x28x128 to 128 nchw",),
        SHORT_ROWS,
        peers=("onnxruntime",),
    ),
    Reason(
        ZEN_5,
        ("resnet50 1x1 14x14x1024 to 256 nchw",),
        "transposing the image takes 36 us of 450: with channels last the product takes 412",
        peers=("onnxruntime",),
    ),
    Reason(
        ZEN_5,
        ("resnet50 3x3/2 14x14x512 to 512 nchw", "resnet50 3x3 7x7x512 to 512 nchw"),
        "49 positions times a filter of 9.4 MB, which comes from the third-level cache: 0.71 to 0.77 of the FMA rate, "
        "where larger images reach 0.88",
        peers=("onnxruntime",),
    ),
    *(
        Reason(
            ZEN_5,
            ("Q8_0, *",),
            SCALES_OF_ROWS,
            peers=("ctranslate2",),
            name=name,
        )
        for name in ("prefill", "first token")
    ),
    *(
        Reason(
            ZEN_5,
            ("f32, 1024 tokens",),
            "945 against 877 tokens/s in a run before, of the same day",
            peers=("ctranslate2",),
            name=name,
        )
        for name in ("prefill", "first token")
    ),
    Reason(
        ZEN_5,
        ("*",),
        "a command in Python beside a compiled one: imports take 0.35 s of CPU time, more than half of the smallest "
        "model",
        peers=("iree",),
        name="compile, cold",
    ),
    Reason(
        XEON,
        ("mlp_f16",),
        "IREE multiplies and adds in f16: a sum of 4,096 ones is 2,048 there, and results are off from those of f64 by "
        "up to 6.6e-3 of the largest; ours adds in f32, as XLA and onnxruntime do, and is off by 7.0e-4. Widening the "
        "weights takes 4 of 20 instructions of the units that multiply, and the products reach 128 to 158 GFLOP/s",
        peers=("iree",),
    ),
    Reason(
        XEON,
        ("whisper 3/2 3000x384 to 384 nhc",),
        "packing takes 17 % of the time, 9 % for B, an argument, and 8 % for A; the products reach 0.86 of the FMA "
        "rate",
        peers=("jax",),
    ),
    Reason(
        XEON,
        ("llama *",),
        "67 or 180 MB of weights from memory: ours take 0.76 to 0.92 of the time of a triad over as many bytes, which "
        "is the roof of the table; the peer reads them faster still",
        peers=("iree", "jax", "numpy"),
    ),
    Reason(
        XEON,
        ("resnet50 1x1*", "resnet50 3x3*", "whisper 3/2 3000x384 to 384 ncw"),
        "filters are arguments, in the order of the caller; as constants, laid out once, ours take 0.39 to 0.76 of the "
        "time, less than the peer",
        peers=("iree", "jax", "numpy"),
    ),
    Reason(
        XEON,
        (
            "resnet50 1x1 14x14x*",
            "resnet50 3x3 56x56x64 *",
            "resnet50 3x3 7x7x512 *",
            "gpt2 tied head 128x768x8192t",
            "long k 64x16384x64",
        ),
        "not reproduced: in a second run ours took 0.84 to 1.00 of the time of the peer",
        peers=("onnxruntime",),
    ),
    Reason(
        XEON,
        ("reduction: max of whole *",),
        "not reproduced: in a second run 777 us, NumPy 759",
        peers=("numpy",),
    ),
    Reason(
        XEON,
        ("dynamic sum of whole *",),
        "two workers take as long as one, 253 and 239 us in a second run, JAX 178 and 311; not profiled",
        peers=("jax",),
    ),
    Reason(
        XEON,
        ("unet transposed 4x4*2 *",),
        "2.44 ms in a second run, JAX 2.30: 0.59 of the FMA rate; not profiled after the four phases were given as "
        "many positions as the result has",
        peers=("jax",),
    ),
    Reason(
        XEON,
        ("gpt2 down 1x3072x768",),
        "with two workers packed constants take 248 us in a second run, weights as arguments 189; not profiled",
        peers=("onnxruntime",),
    ),
    Reason(
        XEON,
        ("dilated 3x3 dilated 4 *",),
        "ours computes the steps of windows that lie in the padding, too: 1.23 times the multiply-adds",
        peers=("onnxruntime",),
    ),
    Reason(
        XEON,
        ("depthwise 3x3 7x7x960 *",),
        "83 us for 960 images of 7x7, where the roof is 5: nine short rows with their padding are stored for each, and "
        "vectors that span several rows are loaded before the stores have reached the cache; 5 of 61 positions of an "
        "image are computed singly",
        peers=("onnxruntime",),
    ),
    Reason(
        XEON,
        ("resnet50 3x3/2 14x14x512 to 512 nchw",),
        "a filter of 9.4 MB: the first of five passes over each packed panel waits for the third-level cache; 0.56 to "
        "0.68 of the FMA rate",
        peers=("onnxruntime",),
    ),
    Reason(
        XEON,
        ("unet 3x3 *",),
        "packed panels of the filter, 3.7 MB with 320 channels and 14.7 MB with 640, are read again for each row of "
        "the image; 0.68 to 0.79 of the FMA rate",
        peers=("onnxruntime",),
    ),
    Reason(
        XEON,
        ("grouped 3x3 groups 4 28x28x128 to 128 nchw",),
        "rows of 28 positions fill 1.75 of two vectors, and the images of each group are packed",
        peers=("onnxruntime",),
    ),
    Reason(
        XEON,
        ("*",),
        "a command in Python beside a compiled one: imports take 0.4 s of CPU time, more than half of the smallest "
        "model",
        peers=("iree",),
        name="compile, cold",
    ),
    *(
        Reason(
            XEON,
            ("bf16, *",),
            "PyTorch multiplies in bf16 by AMX and keeps all activations in bf16; ours keeps sums, norms and attention "
            "in f32 and processes a prompt in chunks of 64 tokens, each of which reads the weights again",
            peers=("torch",),
            name=name,
        )
        for name in ("prefill", "first token")
    ),
    *(
        Reason(
            XEON,
            ("Q8_0, *",),
            "CTranslate2 has one scale for each row of the weights and multiplies by AMX; Q8_0 has one for each block "
            "of 32, whose sums ours scales and adds in f32",
            peers=("ctranslate2",),
            name=name,
        )
        for name in ("prefill", "first token")
    ),
    *(Reason(XEON, names, why, peers=("Numba", "C", "C, clang")) for names, why in PYTHON_KERNELS_ON_XEON.items()),
    *(Reason(ZEN_4, names, why, peers=("Numba", "C", "C, clang")) for names, why in PYTHON_KERNELS.items()),
)
"""Known reasons of losses: the first one that explains a row of the tables is shown beside it."""


def reason(machine: str, row: Row) -> str:
    """Return the text of the first reason that explains a loss, "" when none does."""
    return next((known.text for known in REASONS if known.explains(machine, row)), "")
