"""Chains of configs and what solves them.

`chain_problem`  what a chain is, what an oracle answers, what a result says
`shard_solver`   the policy's solver: propagation, reshards where needed, most cores
`materialise`    a chain with every answer of the oracle written out, for the exact solvers
`chain_dp`       exact for linear chains, cores or time
`chain_cpsat`    exact for every chain, cores or time (ortools is imported when called)
`chain_cuts`     the stretches of a chain that pay
`chain_engines`  ShardSolver and CP-SAT under one protocol, by name
`shard_trace`    what ShardSolver did to a chain, step by step
"""
