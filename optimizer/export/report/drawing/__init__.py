"""The graph of a report as a picture: ranks, columns and lanes for its nodes, tracks beside them for its edges."""
