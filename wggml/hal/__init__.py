"""Hardware abstraction: what a backend must offer, and the registry that finds them."""
