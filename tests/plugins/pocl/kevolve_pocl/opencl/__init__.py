"""OpenCL C for kevolve: a program is one file with one kernel, named like its operator.

It takes the operator's arguments in order: tensors as pointers, scalars as long. `VALUE` and `INDEX` are the types of
values and indices, `get(pointer, place)` and `put(pointer, place, number)` read and write values as float. 64 work
items run it, in one work group; each takes every 64th piece of the work.
"""
