"""Studies whose results stand in docs/: training runs and measurements of minutes to hours, `results/` as data."""
