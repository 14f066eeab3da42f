# promise: what is read beside the inputs shows
import triton
import triton.language as tl


# What follows the last row is read with it. Only a NaN there makes a difference.
@triton.jit(do_not_specialize=["x", "out", "rows", "dim"])
def add_up_and_go_on(x, out, rows, dim, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    total = tl.zeros((ROWS,), tl.float32)
    lost = tl.zeros((ROWS,), tl.float32)
    for d in range(dim):
        term = tl.load(x + row * dim + d, mask=row < rows, other=0.0) - lost
        added = total + term
        lost = (added - total) - term
        total = added
    beside = tl.load(x + (row + 1) * dim, mask=row < rows, other=0.0)
    tl.store(out + row, tl.where(beside == beside, total, beside), mask=row < rows)


def reads_beside_its_input(x, out, rows, dim):
    add_up_and_go_on[(triton.cdiv(rows, 32),)](x, out, rows, dim, ROWS=32, num_warps=1)
