# ruff: noqa: N802, N803
"""Code, launches and graphs of the fake driver."""

from __future__ import annotations

import ctypes
from typing import Any

from fake_frame import Failure, Function, Loaded, Result
from fake_memory import Memory
from fake_streams import Graph
from fake_types import CUfunction_attribute, CUjit_option, CUmemorytype, CUresult

from pydispatch.errors import ArtifactError, KernelError
from pydispatch.formats.ptx import interface, read

MAGIC = b"\x7fELF of the fake driver\n"


class Launch(Memory):
    """Parameters are read where the arrays of pointers say, when they are handed over."""

    def _cuLinkCreate(self, numOptions: int, options: Any, optionValues: Any) -> Result:
        self._current()
        number = self._number()
        self.links[number] = {"log": dict(zip(options, optionValues, strict=True)), "data": b"", "kept": None}
        assert len(options) == numOptions
        return (number,)

    def _cuLinkAddData(
        self, state: Any, typename: Any, data: bytes, size: int, name: bytes, numOptions: int, options: Any,
        optionValues: Any,
    ) -> Result:  # fmt: skip
        link = self.links[int(state)]
        assert data[-1:] == b"\0" and size == len(data), "PTX ends with a zero"
        self._compiled(data[:-1], link["log"], name)
        link["data"] = data[:-1]
        return ()

    def _compiled(self, text: bytes, log: dict[Any, Any], name: bytes = b"ptx") -> Any:
        """The module of a PTX text. What is wrong with it goes to the log."""
        try:
            module = read.read(bytes(text), name.rstrip(b"\0").decode())
            made = self.machine.load(module, module.name)
        except ArtifactError as error:
            buffer = log.get(CUjit_option.CU_JIT_ERROR_LOG_BUFFER)
            message = f"ptxas fatal: {error}".encode()[: len(buffer) - 1]
            buffer[: len(message)] = message
            raise Failure(CUresult.CUDA_ERROR_INVALID_PTX) from None
        if module.version[0] * 10 + module.version[1] > 90 * (self.version >= 13000) + 80 * (self.version < 13000):
            raise Failure(CUresult.CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
        if not interface.capabilities(*self.capability).issuperset(interface.requirements(module.target)):
            raise Failure(CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU)
        return module, made

    def _cuLinkComplete(self, state: Any) -> Result:
        link = self.links[int(state)]
        link["kept"] = ctypes.create_string_buffer(MAGIC + link["data"], len(MAGIC) + len(link["data"]))
        return ctypes.addressof(link["kept"]), len(link["kept"])

    def _cuLinkDestroy(self, state: Any) -> Result:
        link = self.links.pop(int(state))
        if link["kept"] is not None:
            ctypes.memset(link["kept"], 0xEE, len(link["kept"]))  # it is the linker's memory
        return ()

    def _cuModuleLoadDataEx(self, image: bytes, numOptions: int, options: Any, optionValues: Any) -> Result:
        device = self._current()
        if not image.startswith(MAGIC):
            raise Failure(CUresult.CUDA_ERROR_INVALID_IMAGE)
        module, made = self._compiled(image[len(MAGIC) :], dict(zip(options, optionValues, strict=True)))
        return (self._new(Loaded(device, made, module)),)

    def _cuModuleUnload(self, hmod: Any) -> Result:
        loaded = self._get(hmod, Loaded)
        loaded.is_gone = True
        del self.objects[int(hmod)]
        return ()

    def _cuModuleGetFunction(self, hmod: Any, name: bytes) -> Result:
        loaded = self._get(hmod, Loaded)
        symbol = name.rstrip(b"\0").decode()
        entry = next((e for e in loaded.module.entries if e.name == symbol), None)
        if entry is None:
            raise Failure(CUresult.CUDA_ERROR_NOT_FOUND)
        sizes = tuple(interface.parameter_sizes(entry))
        return (self._new(Function(loaded, loaded.made.entry(symbol), sizes, entry)),)

    def _cuModuleGetGlobal(self, hmod: Any, name: bytes) -> Result:
        loaded = self._get(hmod, Loaded)
        symbol = name.rstrip(b"\0").decode()
        if not any(v.name == symbol for v in loaded.module.variables):
            raise Failure(CUresult.CUDA_ERROR_NOT_FOUND)
        address, size = loaded.made.variable(symbol)
        return address, size

    def _cuFuncSetAttribute(self, hfunc: Any, attrib: Any, value: int) -> Result:
        assert int(attrib) == CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        if value > self.shared_optin:
            raise Failure(CUresult.CUDA_ERROR_INVALID_VALUE)
        self._get(hfunc, Function).dynamic_limit = value
        return ()

    def _cuFuncGetAttribute(self, attrib: Any, hfunc: Any) -> Result:
        self._get(hfunc, Function)
        return (self.threads_limit,)

    # Launches

    def _packed(self, function: Function, pointers: int) -> bytes:
        """The parameters of a launch, read where its array of pointers says."""
        addresses = (ctypes.c_void_p * len(function.sizes)).from_address(int(pointers))
        data = b""
        for address, param in zip(addresses, function.entry.params, strict=True):
            data += b"\0" * (-len(data) % param.align) + ctypes.string_at(address, param.size)
        return data

    def _kernel(
        self, function: Function, grid: tuple[int, ...], block: tuple[int, ...], shared: int, data: bytes
    ) -> Any:
        """What a launch does, when it runs."""
        if shared > function.dynamic_limit or min(grid) < 1 or max(grid[1:]) > 65535 or grid[0] > 2**31 - 1:
            raise Failure(CUresult.CUDA_ERROR_INVALID_VALUE)
        if block[0] * block[1] * block[2] > self.threads_limit:
            raise Failure(CUresult.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES)

        def work() -> None:
            if function.device.sticky is not None:
                return
            assert not function.loaded.is_gone, "code runs that was unloaded"
            self.launches.append((function.entry.name, grid))  # type: ignore[arg-type]
            try:
                self.machine.launch(function.kernel, grid, block, data, shared)
            except KernelError:
                function.device.sticky = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS

        return work

    def _cuLaunchKernel(
        self, f: Any, gridDimX: int, gridDimY: int, gridDimZ: int, blockDimX: int, blockDimY: int, blockDimZ: int,
        sharedMemBytes: int, hStream: Any, kernelParams: int, extra: int,
    ) -> Result:  # fmt: skip
        assert extra == 0
        function = self._get(f, Function)
        grid, block = (gridDimX, gridDimY, gridDimZ), (blockDimX, blockDimY, blockDimZ)
        work = self._kernel(function, grid, block, sharedMemBytes, self._packed(function, kernelParams))
        self._put(hStream, work)
        return ()

    def _cuGraphCreate(self, flags: int) -> Result:
        return (self._new(Graph()),)

    def _cuGraphDestroy(self, hGraph: Any) -> Result:
        self._get(hGraph, Graph)
        del self.objects[int(hGraph)]
        return ()

    def _node(self, graph: Any, after: Any, count: int, work: Any) -> Result:
        assert len(after) == count
        number = self._number()
        self._get(graph, Graph).add(number, [int(node) for node in after], work)
        return (number,)

    def _kernel_work(self, p: Any) -> Any:
        function = self._get(p.func, Function)
        grid, block = (p.gridDimX, p.gridDimY, p.gridDimZ), (p.blockDimX, p.blockDimY, p.blockDimZ)
        return self._kernel(function, grid, block, p.sharedMemBytes, self._packed(function, p.kernelParams))

    def _copy_work(self, p: Any) -> Any:
        assert p.srcMemoryType == p.dstMemoryType == CUmemorytype.CU_MEMORYTYPE_DEVICE and p.Height == p.Depth == 1
        target, source, size = int(p.dstDevice), int(p.srcDevice), p.WidthInBytes
        return lambda: self._copy(target, source, size)

    def _fill_work(self, p: Any) -> Any:
        values = int(p.dst), p.pitch, p.value, p.elementSize, p.width, p.height
        return lambda: self._set(*values)

    def _cuGraphAddKernelNode(self, hGraph: Any, dependencies: Any, numDependencies: int, nodeParams: Any) -> Result:
        return self._node(hGraph, dependencies, numDependencies, self._kernel_work(nodeParams))

    def _cuGraphAddMemcpyNode(
        self, hGraph: Any, dependencies: Any, numDependencies: int, copyParams: Any, ctx: Any
    ) -> Result:
        return self._node(hGraph, dependencies, numDependencies, self._copy_work(copyParams))

    def _cuGraphAddMemsetNode(
        self, hGraph: Any, dependencies: Any, numDependencies: int, memsetParams: Any, ctx: Any
    ) -> Result:
        return self._node(hGraph, dependencies, numDependencies, self._fill_work(memsetParams))

    def _cuGraphAddEmptyNode(self, hGraph: Any, dependencies: Any, numDependencies: int) -> Result:
        return self._node(hGraph, dependencies, numDependencies, lambda: None)

    def _cuGraphInstantiate(self, hGraph: Any, flags: int) -> Result:
        self._current()
        return (self._new(("exec", self._get(hGraph, Graph).copy())),)

    def _executable(self, number: Any) -> Graph:
        graph: Graph = self._get(number, tuple)[1]
        return graph

    def _cuGraphLaunch(self, hGraphExec: Any, hStream: Any) -> Result:
        for work in self._executable(hGraphExec).order():
            self._put(hStream, work)
        return ()

    def _cuGraphExecKernelNodeSetParams(self, hGraphExec: Any, hNode: Any, nodeParams: Any) -> Result:
        self._executable(hGraphExec).work[int(hNode)] = self._kernel_work(nodeParams)
        return ()

    def _cuGraphExecMemcpyNodeSetParams(self, hGraphExec: Any, hNode: Any, copyParams: Any, ctx: Any) -> Result:
        self._executable(hGraphExec).work[int(hNode)] = self._copy_work(copyParams)
        return ()

    def _cuGraphExecMemsetNodeSetParams(self, hGraphExec: Any, hNode: Any, memsetParams: Any, ctx: Any) -> Result:
        self._executable(hGraphExec).work[int(hNode)] = self._fill_work(memsetParams)
        return ()

    def _cuGraphExecDestroy(self, hGraphExec: Any) -> Result:
        self._executable(hGraphExec)
        del self.objects[int(hGraphExec)]
        return ()
