"""Solvers on plain integers: chains of configs, exact references, and the L1 allocator.

`problem`        what a chain is, what an oracle answers, what a result says
`shard_solver`   the policy's solver: propagation, reshards where needed, most cores
`materialise`    a chain with every answer of the oracle written out, for the exact solvers
`chain_dp`       exact for linear chains, cores or time
`chain_cpsat`    exact for every chain, cores or time (ortools is imported when called)
`chain_exact`    the one of the two that fits
`chain_engines`  ShardSolver and CP-SAT under one protocol, by name
`shard_trace`    what ShardSolver did to a chain, step by step
`reservation_timeline`  what is held in L1 at which schedule position
`l1_allocator`   where the runtime would place buffers, and whether circular buffers reach them
`placement`      addresses for given lifetimes: first fit, then the two engines below, then a check
`placement_search`, `placement_cpsat`  branch and bound over sections of time; rectangles in CP-SAT
"""
