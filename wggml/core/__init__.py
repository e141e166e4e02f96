"""The graph, free of devices: types, tensors, contexts, ops."""
