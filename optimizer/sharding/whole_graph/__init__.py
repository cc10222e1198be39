"""The policy `global`: the whole graph as one problem, searched and proved."""
