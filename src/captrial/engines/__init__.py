"""Run a batch job here or on Ray: same job object."""
