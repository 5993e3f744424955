"""Side-by-side ratios on this machine: `make bench`."""
