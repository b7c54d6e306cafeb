"""Screenshots of the web pages for the documentation, taken in headless Chromium."""
