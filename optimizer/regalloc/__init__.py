"""Register allocation on plain intervals: knows no graph, no GPU and no Tensix core."""
