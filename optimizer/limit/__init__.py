"""The physical limit of a plan: what no plan of the same model gets around, and where the rest of the time goes."""
