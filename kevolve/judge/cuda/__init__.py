"""The judge on a GPU.

Trusted: the judge (`judge.py`), which makes all content and checks all answers on the device, and the baseline process
(`baselines.py`). Beside the enemy: `beside.py`, in a disposable child of the sandboxed fork server with a CUDA context
of its own, so that a fault, a hang or lost memory ends with it.

- The three share two blocks of device memory (`memory.py`). The child has the inputs mapped for reading only; it
  holds no reference, no expected output and no verdict.
- Of a program only kernels run. Its launching function was checked from its text to do nothing but launch
  (`languages/triton/screen.py`), or was translated from C++ to what can do no more (`languages/cuda/translate.py`), and
  was traced by the build; so nothing of a program runs on the CPU that could reach into the child, and what it has
  asked of the device is over when its context is. Variables of the device that would outlive a call are refused by the
  build of CUDA C++; what workspace still holds of earlier calls is of no use, since contents are always new.
- Content is drawn anew for every timed call, element by element, on the device. Calls of a block differ in lengths and
  addresses; together they are several times the cache, so that a call finds its inputs in memory (`timing.py`).
- What is timed is the device: it waits, at the judge's order, while a block's calls are queued, in the child as in the
  baseline process, since users whose calls are many or in a CUDA graph do not wait for launches either (`waiting.py`).
- What counts is the judge's own window from `go` to the answer, less the wait and what an empty window takes; the
  device's events in the child have to agree with it, and without a wait, too, which a kernel that finds a way to leave
  the wait out cannot tell apart; and nothing may be faster than the device can move the data.
- Outputs start as a NaN with a number of its own; every output of every timed call is searched for it, and random parts
  of random calls are compared with the oracle, guard zones included.
"""
