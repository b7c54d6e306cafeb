"""One self-contained HTML page from any result."""
