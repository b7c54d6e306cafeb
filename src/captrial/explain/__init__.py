"""Attribution, regions, grounding, attention correctness, drawing."""
