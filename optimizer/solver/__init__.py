"""Solvers on plain integers: chains of configs, and whole graphs of options with a capacity.

`problem`        what a chain is, what an oracle answers, what a result says
`shard_solver`   the policy's solver: propagation, reshards where needed, most cores
`materialise`    a chain with every answer of the oracle written out, for the exact solvers
`chain_dp`       exact for linear chains, cores or time
`chain_cpsat`    exact for every chain, cores or time (ortools is imported when called)
`chain_exact`    the one of the two that fits
`chain_cuts`     the stretches of a chain that pay
`chain_engines`  ShardSolver and CP-SAT under one protocol, by name
`shard_trace`    what ShardSolver did to a chain, step by step
`graph_problem`  a whole graph of options: costs on nodes and pairs, a memory with a capacity at every step
`elimination`    its bound without capacity; `lagrangian` with it, `option_pruning` what no better choice holds
`graph_cpsat`    exact with capacity, for what is small; `neighbourhood` a few nodes at a time
"""
