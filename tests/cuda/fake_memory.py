# ruff: noqa: N802, N803
"""Memory of the fake driver: pools, copies, fills."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from fake_frame import Failure, Frame, Result
from fake_types import CUmemLocationType, CUmemorytype, CUpointer_attribute, CUresult


class Memory(Frame):
    """Blocks are allocations of the interpreter, so that an access outside is found."""

    def _cuMemPoolCreate(self, poolProps: Any) -> Result:
        assert poolProps.location.type == CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        return (self._new(("pool", self.devices[poolProps.location.id], {})),)

    def _cuMemPoolSetAttribute(self, pool: Any, attr: Any, value: Any) -> Result:
        assert int(value) == (1 << 64) - 1, "the driver keeps what it has for the next blocks"
        self._get(pool, tuple)[2][int(attr)] = int(value)
        return ()

    def _cuMemPoolGetAttribute(self, pool: Any, attr: Any) -> Result:
        return (self._get(pool, tuple)[1].used,)

    def _cuMemPoolTrimTo(self, pool: Any, minBytesToKeep: int) -> Result:
        self._get(pool, tuple)
        return ()

    def _cuMemPoolDestroy(self, pool: Any) -> Result:
        self._get(pool, tuple)
        del self.objects[int(pool)]
        return ()

    def _cuMemAllocFromPoolAsync(self, bytesize: int, pool: Any, hStream: Any) -> Result:
        device, _ = self._stream(hStream)
        if device.used + bytesize > device.total:
            raise Failure(CUresult.CUDA_ERROR_OUT_OF_MEMORY)
        address = self.machine.memory.allocate(bytesize)
        device.used += bytesize
        device.sizes[address] = bytesize
        return (address,)

    def _cuMemFreeAsync(self, dptr: Any, hStream: Any) -> Result:
        device, address = self._stream(hStream)[0], int(dptr)
        if address not in device.sizes:
            raise Failure(CUresult.CUDA_ERROR_INVALID_VALUE)
        size = device.sizes.pop(address)

        def free() -> None:
            self.machine.memory.free(address)
            device.used -= size

        self._put(hStream, free)
        return ()

    def _cuMemcpyHtoDAsync(self, dstDevice: Any, srcHost: Any, ByteCount: int, hStream: Any) -> Result:
        source = _host(srcHost)
        data = None if source in self.pinned else ctypes.string_at(source, ByteCount)  # pinned: read later

        def work() -> None:
            self.machine.memory.write(int(dstDevice), ctypes.string_at(source, ByteCount) if data is None else data)

        self._put(hStream, work)
        return ()

    def _cuMemcpyDtoHAsync(self, dstHost: Any, srcDevice: Any, ByteCount: int, hStream: Any) -> Result:
        target = _host(dstHost)
        self._put(hStream, lambda: _poke(target, self.machine.memory.read(int(srcDevice), ByteCount)))
        self._drain(*self._stream(hStream))  # memory that is not pinned: done when it returns
        return ()

    def _cuMemcpyDtoDAsync(self, dstDevice: Any, srcDevice: Any, ByteCount: int, hStream: Any) -> Result:
        self._put(hStream, lambda: self._copy(int(dstDevice), int(srcDevice), ByteCount))
        return ()

    def _copy(self, target: int, source: int, size: int) -> None:
        assert abs(target - source) >= size, "a copy onto itself"
        self.machine.memory.write(target, self.machine.memory.read(source, size))

    def _set(self, address: int, pitch: int, value: int, element: int, width: int, height: int) -> None:
        assert address % element == 0 and pitch % element == 0, "a fill that is not aligned"
        assert height == 1 or pitch >= width * element, "rows that overlap"
        data = value.to_bytes(element, "little") * width  # OverflowError where the driver would have lost bits
        for row in range(height):
            self.machine.memory.write(address + row * pitch, data)

    def _cuMemsetD8Async(self, dstDevice: Any, uc: int, N: int, hStream: Any) -> Result:
        self._put(hStream, lambda: self._set(int(dstDevice), 0, uc, 1, N, 1))
        return ()

    def _cuMemsetD16Async(self, dstDevice: Any, us: int, N: int, hStream: Any) -> Result:
        self._put(hStream, lambda: self._set(int(dstDevice), 0, us, 2, N, 1))
        return ()

    def _cuMemsetD32Async(self, dstDevice: Any, ui: int, N: int, hStream: Any) -> Result:
        self._put(hStream, lambda: self._set(int(dstDevice), 0, ui, 4, N, 1))
        return ()

    def _cuMemsetD2D8Async(
        self, dstDevice: Any, dstPitch: int, uc: int, Width: int, Height: int, hStream: Any
    ) -> Result:
        self._put(hStream, lambda: self._set(int(dstDevice), dstPitch, uc, 1, Width, Height))
        return ()

    def _cuMemsetD2D32Async(
        self, dstDevice: Any, dstPitch: int, ui: int, Width: int, Height: int, hStream: Any
    ) -> Result:
        self._put(hStream, lambda: self._set(int(dstDevice), dstPitch, ui, 4, Width, Height))
        return ()

    def _cuPointerGetAttribute(self, attribute: Any, ptr: Any) -> Result:
        address = int(ptr)
        for device in self.devices:
            for start, size in device.sizes.items():
                if start <= address < start + size:
                    is_kind = int(attribute) == CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
                    return (CUmemorytype.CU_MEMORYTYPE_DEVICE if is_kind else device.index,)
        if address in self.pinned:
            return (CUmemorytype.CU_MEMORYTYPE_HOST,)
        raise Failure(CUresult.CUDA_ERROR_INVALID_VALUE)


def _host(place: Any) -> int:
    """The address of memory of the process, given as a number or as a buffer."""
    if isinstance(place, int):
        return place
    return int(np.frombuffer(place, np.uint8).__array_interface__["data"][0])


def _poke(address: int, data: bytes) -> None:
    ctypes.memmove(address, data, len(data))
