"""Order of instructions: what must stay in order, what waiting costs, how many registers an order needs."""
