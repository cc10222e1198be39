"""The analytical backend: tt-metal's acceptance rules, buffer sizes and a roofline, as formulas."""
