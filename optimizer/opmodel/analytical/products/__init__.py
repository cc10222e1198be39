"""Rules of matrix products, and what TTNN chooses for them by itself."""
