"""The Python side."""
