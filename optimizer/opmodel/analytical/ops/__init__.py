"""Rules of all other ops, a family per file."""
