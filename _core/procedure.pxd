from libc.stdint cimport uint32_t

from pydispatch._core.c_procedure cimport pyd_input_t, pyd_invocation_t
from pydispatch._core.public cimport PublicFunction
from pydispatch._core.state cimport State


# A public function with control flow, state or checks. It has the interface of Function.
cdef class Procedure(PublicFunction):
    cdef State state
    cdef object verify
    cdef readonly object order  # the SubmissionOrder of its calls; None if they use no globals that change

    # |blocks|: of arguments that are buffers of the device, or NULL on the CPU.
    cdef list with_device_inputs(self, tuple args, bint runs)
    cdef list gather(self, object args, pyd_input_t* inputs, void** blocks, bint copies)
    cdef object convert(self, uint32_t i, object value, pyd_input_t* out_input, bint copies)
    cdef object bind_array(self, uint32_t i, object array, pyd_input_t* out_input)
    cdef object bind_buffer(self, uint32_t i, object buffer, pyd_input_t* out_input, void** out_block)
    cdef object invoke(self, pyd_input_t* inputs, void** blocks, object out, uint32_t workers)
    cdef list check_out(self, object out)
    cdef object finish(self, pyd_invocation_t* invocation, list outs)
    cdef list finish_on_device(self, pyd_invocation_t* invocation)
    cdef object result(self, pyd_invocation_t* invocation, uint32_t index)
    cdef list observed(self, pyd_invocation_t* invocation)
