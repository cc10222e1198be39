"""Queries as `Work`: what an accepted op does on its cores, read off the query and its usage."""
