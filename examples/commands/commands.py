"""The host commands of program.mlir in Python, for every device.

    device = pydispatch.device("cpu")           # or "vulkan:0", "webgpu:0", "cuda:0", ...
    register(device)
    program = device.load(pydispatch.compile("program.mlir"))
    sums, packed, length = program.main(x)

On the CPU operands are NumPy arrays over the memory itself, elsewhere buffers of the device: a command that is
registered as synchronous finds them computed, others put work on the stream or record it.
"""

import zlib

import numpy as np

ONE = 0x3F800000  # 1.0 as the bits of an f32


def center(context, x):
    """Subtract the mean of the elements from each of them, in place."""
    array = x if context.kind == "cpu" else x.numpy()
    array -= array.mean()
    if context.kind != "cpu":
        x.upload(array)


def pack(context, x, packed, length):
    """Compress the bytes of x to `packed`, fills its rest with zeros, and stores the length in bytes in `length`.

    zlib releases the GIL, so that other threads run the next dispatch meanwhile.
    """
    data = np.frombuffer(zlib.compress(np.asarray(x).tobytes(), level=1), np.int8)
    room = np.zeros(packed.shape, np.int8)
    room[: data.size] = data
    for target, value in ((packed, room), (length, np.int64(data.size))):
        if context.kind == "cpu":
            target[...] = value
        else:
            target.upload(value)


def ones(context, out):
    """Fill `out` with 1, with the function that the device has for it, on its stream or in its command buffer."""
    if context.kind == "cuda":  # as a call of cuBLAS would: what it starts is on the stream
        from cuda.bindings import driver

        (status,) = driver.cuMemsetD32Async(out.memory.handle, ONE, out.size, context.stream)
        if int(status):
            raise RuntimeError(f"cuMemsetD32Async: {status}")
    elif context.kind == "vulkan":  # recorded once, run in every call
        from vulkan._vulkan import ffi, lib

        recorded, buffer = ffi.cast("VkCommandBuffer", context.command_buffer), ffi.cast("VkBuffer", out.memory.handle)
        lib.vkCmdFillBuffer(recorded, buffer, out.memory.offset, out.nbytes, ONE)
    elif context.kind == "cpu":
        out[...] = 1
    else:
        out.upload(np.ones(out.shape, np.float32))


def register(device):
    """Add all commands of this file to a device. synchronous: earlier work of a call is complete before the command."""
    device.add_command("center", center, synchronous=True)
    device.add_command("pack", pack, synchronous=True)
    device.add_command("ones", ones, synchronous=False)
