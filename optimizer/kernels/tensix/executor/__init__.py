"""Emitted C++ run on the CPU: compiled by g++ against a header of the kernel API's real signatures (`header.py`)."""
