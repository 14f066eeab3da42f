"""The report: what a run found, by how much, how sure that is and how it came about, for somebody who was not there.

`findings` reads the events and says what they come to; `page`, `text`, `tables` and `compare` show that as a
web page, in a terminal, as JSON and CSV, and beside another run. Nothing here measures or changes anything.
"""

from kevolve.report.listener import Reporter

__all__ = ["Reporter"]
