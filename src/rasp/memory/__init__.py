"""Memory: what is alive at each operator, why, and what an allocator makes of it, from the record of a run."""
