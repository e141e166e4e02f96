"""Backends: NumPy and wgpu."""
