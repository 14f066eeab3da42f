"""A device for kevolve that is not part of it: OpenCL programs on the CPU, by PoCL."""
