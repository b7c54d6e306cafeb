"""Benchmarks: ours and a peer side by side in one run, so that the ratio outlives the machine."""
