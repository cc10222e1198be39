"""Solvers on plain integers: `chains` of configs, and whole `graphs` of options with a capacity."""
