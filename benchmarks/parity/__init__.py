"""Agreement of captrial with reference implementations."""
