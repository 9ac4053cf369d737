# ruff: noqa: N801
"""Enumerations and structures of `cuda.bindings.driver`, as far as pydispatch uses them."""

from __future__ import annotations

import enum
from typing import Any


class CUresult(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NOT_INITIALIZED = 3
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_INVALID_DEVICE = 101
    CUDA_ERROR_INVALID_IMAGE = 200
    CUDA_ERROR_INVALID_CONTEXT = 201
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209
    CUDA_ERROR_INVALID_PTX = 218
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222
    CUDA_ERROR_INVALID_HANDLE = 400
    CUDA_ERROR_NOT_FOUND = 500
    CUDA_ERROR_NOT_READY = 600
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701


class CUdevice_attribute(enum.IntEnum):
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X = 2
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y = 3
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z = 4
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X = 5
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y = 6
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z = 7
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8
    CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10
    CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16
    CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36
    CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37
    CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97
    CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115


class CUjit_option(enum.IntEnum):
    CU_JIT_INFO_LOG_BUFFER = 3
    CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES = 4
    CU_JIT_ERROR_LOG_BUFFER = 5
    CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6


class CUjitInputType(enum.IntEnum):
    CU_JIT_INPUT_PTX = 1


class CUmemAllocationType(enum.IntEnum):
    CU_MEM_ALLOCATION_TYPE_PINNED = 1


class CUmemLocationType(enum.IntEnum):
    CU_MEM_LOCATION_TYPE_DEVICE = 1


class CUmemPool_attribute(enum.IntEnum):
    CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4
    CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT = 5


class CUmemorytype(enum.IntEnum):
    CU_MEMORYTYPE_HOST = 1
    CU_MEMORYTYPE_DEVICE = 2


class CUpointer_attribute(enum.IntEnum):
    CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2
    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9


class CUfunction_attribute(enum.IntEnum):
    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8


def _structure(kind: str, **fields: Any) -> type:
    """A class with these attributes and no others."""

    def start(self: Any) -> None:
        for name, value in fields.items():
            setattr(self, name, value() if isinstance(value, type) else value)

    return type(kind, (), {"__slots__": tuple(fields), "__init__": start})


CUmemLocation = _structure("CUmemLocation", type=0, id=0)
CUmemPoolProps = _structure("CUmemPoolProps", allocType=0, handleTypes=0, location=CUmemLocation, maxSize=0)
CUDA_KERNEL_NODE_PARAMS = _structure(
    "CUDA_KERNEL_NODE_PARAMS", func=0, gridDimX=0, gridDimY=0, gridDimZ=0, blockDimX=0, blockDimY=0, blockDimZ=0,
    sharedMemBytes=0, kernelParams=0, extra=0,
)  # fmt: skip
CUDA_MEMCPY3D = _structure(
    "CUDA_MEMCPY3D", srcXInBytes=0, srcY=0, srcZ=0, srcMemoryType=0, srcDevice=0, srcPitch=0, srcHeight=0,
    dstXInBytes=0, dstY=0, dstZ=0, dstMemoryType=0, dstDevice=0, dstPitch=0, dstHeight=0, WidthInBytes=0, Height=0,
    Depth=0,
)  # fmt: skip
CUDA_MEMSET_NODE_PARAMS = _structure(
    "CUDA_MEMSET_NODE_PARAMS", dst=0, pitch=0, value=0, elementSize=0, width=0, height=0
)
cuuint64_t = int

STRUCTURES = (CUmemPoolProps, CUmemLocation, CUDA_KERNEL_NODE_PARAMS, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS)
ENUMS = (
    CUresult, CUdevice_attribute, CUjit_option, CUjitInputType, CUmemAllocationType, CUmemLocationType,
    CUmemPool_attribute, CUmemorytype, CUpointer_attribute, CUfunction_attribute,
)  # fmt: skip
