"""Outputs of twenty commands before and after the source tree was restructured."""
