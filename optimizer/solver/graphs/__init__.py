"""Whole graphs of options, and what solves them.

`graph_problem`  costs on nodes and pairs, a memory with a capacity at every step
`elimination`    its bound without capacity; `lagrangian` with it, `option_pruning` what no better choice holds
`graph_cpsat`    exact with capacity, for what is small; `neighbourhood` a few nodes at a time
"""
