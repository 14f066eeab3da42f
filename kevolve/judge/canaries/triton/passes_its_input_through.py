# promise: an answer is compared with the reference
import triton
import triton.language as tl


@triton.jit(do_not_specialize=["x", "out", "rows"])
def copy(x, out, rows, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    tl.store(out + row, tl.load(x + row, mask=row < rows), mask=row < rows)


def passes_its_input_through(x, out, rows, dim):
    copy[(triton.cdiv(rows, 32),)](x, out, rows, ROWS=32, num_warps=1)
