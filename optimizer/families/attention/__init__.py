"""Attention, its heads and rotary embeddings."""
