"""ATen operations as tensors that are not computed yet: one room for each way of computing.

Importing a room fills the table in `calls.py`.
"""
