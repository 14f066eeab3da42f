# promise: what takes twice as long is measured as twice as long
# speedup: 0.5


def does_it_twice(x, out, rows, dim):
    honest(x, out, rows, dim)
    honest(x, out, rows, dim)
