"""tt-metal's device programs, one after the other: what composite TTNN ops allocate while they run.

Most data-movement calls of TTNN are several programs (untilize, move, tilize, reshard ...). Each module here
re-states one such program of tt-metal 0.81: which tensors it refuses, what it allocates and which buffers it
takes. `Session` keeps the L1 allocator and the counters that tt-metal's resource report is made of.
"""
