"""Where pictures and words come from: readers, caption files, safe picture opening, pools, the toy world."""
