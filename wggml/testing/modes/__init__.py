"""What `wggml test-ops` does in each of its modes."""
