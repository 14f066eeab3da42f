"""Export: a champion as an installable package of its own, which needs PyTorch and nothing of kevolve.

`choosing.py` finds the champion, `interface.py` says how it is called, `proven.py` what it was judged on, `forms.py`
which baselines may stand in for it elsewhere, `vendoring.py` takes the operator's own code along, and `package.py`
writes it all down; the texts that every package has are in `parts/`.

A C++ program travels as source and is compiled at its first use, for the processor at hand and into the user's cache.
A built library would need a wheel for each processor, glibc and OpenMP runtime, and would be code that nobody can read
beside what it claims to be; compiling takes about a second, once. Where there is no compiler the fallback runs.
"""
