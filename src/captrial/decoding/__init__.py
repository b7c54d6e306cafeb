"""Greedy, beam and sampling: knows the contract, never a model."""
