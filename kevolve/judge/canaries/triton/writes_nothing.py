# promise: outputs hold no earlier answer when a call begins


def writes_nothing(x, out, rows, dim):
    pass
