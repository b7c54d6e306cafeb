"""The web application: assignment, store, pages."""
