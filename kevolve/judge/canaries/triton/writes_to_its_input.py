# promise: inputs cannot be written to
import triton
import triton.language as tl


@triton.jit(do_not_specialize=["x"])
def overwrite(x):
    tl.store(x, 0.0)


def writes_to_its_input(x, out, rows, dim):
    honest(x, out, rows, dim)
    overwrite[(1,)](x, num_warps=1)
