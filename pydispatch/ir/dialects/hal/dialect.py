"""The `hal` dialect: devices, executables and what kernels see of them."""

from __future__ import annotations

from xdsl.ir import Dialect

from pydispatch.ir.dialects.hal import condition, device, executable, host, interface, layout, object, tensor
from pydispatch.ir.dialects.hal.condition import (
    DeviceQueryOp,
    ExecutableConditionOp,
    ExecutableConstantBlockOp,
    ExecutableConstantLoadOp,
    ReturnOp,
)
from pydispatch.ir.dialects.hal.device import (
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
from pydispatch.ir.dialects.hal.executable import (
    ExecutableBinaryOp,
    ExecutableEndOp,
    ExecutableOp,
    ExecutableSourceEndOp,
    ExecutableSourceOp,
    ExecutableVariantEndOp,
    ExecutableVariantOp,
)
from pydispatch.ir.dialects.hal.export import ExecutableExportOp
from pydispatch.ir.dialects.hal.host import (
    BufferViewAssertOp,
    BufferViewBufferOp,
    BufferViewDimOp,
    BufferViewElementTypeOp,
    BufferViewEncodingTypeOp,
    BufferViewRankOp,
    DevicesGetOp,
    ElementTypeOp,
    EncodingTypeOp,
    FenceAwaitOp,
    FenceCreateOp,
    FenceJoinOp,
    FenceQueryOp,
    FenceSignalOp,
)
from pydispatch.ir.dialects.hal.interface import (
    InterfaceBindingSubspanOp,
    InterfaceConstantLoadOp,
    InterfaceWorkgroupCountOp,
    InterfaceWorkgroupIDOp,
    InterfaceWorkgroupSizeOp,
    WorkgroupOp,
)
from pydispatch.ir.dialects.hal.layout import InterfaceBindingAttr, PipelineBindingAttr, PipelineLayoutAttr
from pydispatch.ir.dialects.hal.object import ExecutableObjectAttr, ExecutableObjectsAttr
from pydispatch.ir.dialects.hal.tensor import (
    DispatchExternOp,
    TensorAliasOp,
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
    "DevicesGetOp",
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
    "FenceQueryOp",
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
    "TensorAliasOp",
    "TensorBarrierOp",
    "TensorExportOp",
    "TensorImportOp",
    "WorkgroupOp",
]

Hal = Dialect(
    "hal",
    [
        *executable.OPERATIONS, *condition.OPERATIONS, *interface.OPERATIONS, *host.OPERATIONS,
        *tensor.OPERATIONS,
    ],
    [*device.ATTRIBUTES, *layout.ATTRIBUTES, *object.ATTRIBUTES],
)  # fmt: skip
