"""A local web page for people who would rather look than type: pictures, captioners side by side, competitions."""
