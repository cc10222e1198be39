"""A finished plan as the program that it is: its steps over the buffers that they make, share and free."""
