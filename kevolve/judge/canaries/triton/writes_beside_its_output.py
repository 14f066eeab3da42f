# promise: a write beside the outputs is seen
import triton
import triton.language as tl


@triton.jit(do_not_specialize=["out", "place"])
def put_zero(out, place):
    tl.store(out + place, 0.0)


def writes_beside_its_output(x, out, rows, dim):
    honest(x, out, rows, dim)
    put_zero[(1,)](out, rows, num_warps=1)
