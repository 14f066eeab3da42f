"""Champions: the best program of each operator on each device, and which of two is the better one.

A champion belongs to a device key: the chip and its toolchain family. Its number was measured there, on one day, and
stands beside no other number. Two champions are compared only by measuring both again, on one machine of that key and
in one session; champions of other keys can be listed and never compared.
"""
