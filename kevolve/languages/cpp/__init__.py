"""C++ for the CPU: one plain C entry point per operator, g++ with OpenMP."""
