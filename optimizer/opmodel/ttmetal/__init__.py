"""The real tt-metal as an OpModel: `ttnn` on mock devices (or a real one) in child processes. See docs/ttmetal.md."""
