"""L1 chains: how they are built, resolved one by one, and what their plans say."""
