"""The doctor: what this machine has and lacks, and what to type to mend it.

Each room looks at one thing and yields findings. It puts the judge to its self-test, changes nothing, and shows no
password, token or value of a variable that could hold one, so that what it prints can be pasted into a bug report.
"""
