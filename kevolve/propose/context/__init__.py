"""The context of a request: what whoever writes a program is told, in blocks, under a budget, by templates.

`blocks.py` and `relatives.py` write the blocks, `fitting.py` drops the least important until they fit,
`templates.py` reads the texts around them, and `prompt.py` puts it all together.
"""
