"""Speed of captrial beside other programs: ratios measured in one run."""
