"""The `hal` dialect: devices, executables and what kernels see of them."""

from __future__ import annotations

from xdsl.ir import Dialect

from pydispatch.ir import (
    hal_condition,
    hal_device,
    hal_executable,
    hal_host,
    hal_interface,
    hal_layout,
    hal_object,
    hal_tensor,
)
from pydispatch.ir.hal_condition import (
    DeviceQueryOp,
    ExecutableConditionOp,
    ExecutableConstantBlockOp,
    ExecutableConstantLoadOp,
    ReturnOp,
)
from pydispatch.ir.hal_device import (
    BufferType,
    BufferViewType,
    DeviceAffinityAttr,
    DeviceAliasAttr,
    DeviceSelectAttr,
    DeviceTargetAttr,
    DeviceType,
    ExecutableTargetAttr,
    FenceType,
)
from pydispatch.ir.hal_executable import (
    ExecutableBinaryOp,
    ExecutableEndOp,
    ExecutableOp,
    ExecutableSourceEndOp,
    ExecutableSourceOp,
    ExecutableVariantEndOp,
    ExecutableVariantOp,
)
from pydispatch.ir.hal_export import ExecutableExportOp
from pydispatch.ir.hal_host import (
    BufferViewAssertOp,
    BufferViewBufferOp,
    BufferViewDimOp,
    BufferViewElementTypeOp,
    BufferViewEncodingTypeOp,
    BufferViewRankOp,
    ElementTypeOp,
    EncodingTypeOp,
    FenceAwaitOp,
    FenceCreateOp,
    FenceJoinOp,
    FenceSignalOp,
)
from pydispatch.ir.hal_interface import (
    InterfaceBindingSubspanOp,
    InterfaceConstantLoadOp,
    InterfaceWorkgroupCountOp,
    InterfaceWorkgroupIDOp,
    InterfaceWorkgroupSizeOp,
    WorkgroupOp,
)
from pydispatch.ir.hal_layout import InterfaceBindingAttr, PipelineBindingAttr, PipelineLayoutAttr
from pydispatch.ir.hal_object import ExecutableObjectAttr, ExecutableObjectsAttr
from pydispatch.ir.hal_tensor import (
    DispatchExternOp,
    TensorBarrierOp,
    TensorExportOp,
    TensorImportOp,
)

__all__ = [
    "BufferType",
    "BufferViewAssertOp",
    "BufferViewBufferOp",
    "BufferViewDimOp",
    "BufferViewElementTypeOp",
    "BufferViewEncodingTypeOp",
    "BufferViewRankOp",
    "BufferViewType",
    "DeviceAffinityAttr",
    "DeviceAliasAttr",
    "DeviceQueryOp",
    "DeviceSelectAttr",
    "DeviceTargetAttr",
    "DeviceType",
    "DispatchExternOp",
    "ElementTypeOp",
    "EncodingTypeOp",
    "ExecutableBinaryOp",
    "ExecutableConditionOp",
    "ExecutableConstantBlockOp",
    "ExecutableConstantLoadOp",
    "ExecutableEndOp",
    "ExecutableExportOp",
    "ExecutableObjectAttr",
    "ExecutableObjectsAttr",
    "ExecutableOp",
    "ExecutableSourceEndOp",
    "ExecutableSourceOp",
    "ExecutableTargetAttr",
    "ExecutableVariantEndOp",
    "ExecutableVariantOp",
    "FenceAwaitOp",
    "FenceCreateOp",
    "FenceJoinOp",
    "FenceSignalOp",
    "FenceType",
    "Hal",
    "InterfaceBindingAttr",
    "InterfaceBindingSubspanOp",
    "InterfaceConstantLoadOp",
    "InterfaceWorkgroupCountOp",
    "InterfaceWorkgroupIDOp",
    "InterfaceWorkgroupSizeOp",
    "PipelineBindingAttr",
    "PipelineLayoutAttr",
    "ReturnOp",
    "TensorBarrierOp",
    "TensorExportOp",
    "TensorImportOp",
    "WorkgroupOp",
]

Hal = Dialect(
    "hal",
    [
        *hal_executable.OPERATIONS, *hal_condition.OPERATIONS, *hal_interface.OPERATIONS, *hal_host.OPERATIONS,
        *hal_tensor.OPERATIONS,
    ],
    [*hal_device.ATTRIBUTES, *hal_layout.ATTRIBUTES, *hal_object.ATTRIBUTES],
)  # fmt: skip
