"""One file an architecture, behind one contract."""
