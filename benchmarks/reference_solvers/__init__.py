"""Exact solvers that no policy needs: references for the ones that do, and for problems from elsewhere.

`frontier`    dynamic programming over the schedule, for graph problems with their capacity
`graph_exact` presolve, prices, frontier and CP-SAT in turn; `graph_lns` groups of nodes by it
`placement`   addresses for given lifetimes: first fit, then a search and CP-SAT, then a check
"""
