"""A local web page for people who would rather look than type: images, captioners side by side, competitions."""
