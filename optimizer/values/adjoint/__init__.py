"""How small changes of results follow small changes of operands, backwards: one rule an op, in `optimizer.families`.

An op is linearised where a run left it: J, the matrix of its partial derivatives. A rule gives J^T g for gradients g of
the results (reverse mode of automatic differentiation; B. Speelpenning, "Compiling fast partial derivatives of
functions given by algorithms", 1980), for those operands that are asked for: weights are not, which makes it cheap.
Written from the formulas and compared with differences of the references.
"""
