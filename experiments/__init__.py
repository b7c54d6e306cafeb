"""Studies whose results stand in docs/: training runs and measurements that take minutes to hours."""
