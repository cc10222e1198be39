"""What `viewers.py` asks of each viewer."""
