"""Equivalent programs: other ways to compute parts of a graph, each open to some ops and exact up to rounding.

What is faster depends on the board and on what surrounds the part, so nothing here decides: the pipeline prices them.
"""
