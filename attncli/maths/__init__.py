"""Mathematics on numpy arrays, no input or output: the c+R arithmetic, norms, bounds, orders of convergence."""
