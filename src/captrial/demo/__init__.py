"""The demonstration: a whole trial on rendered images, offline, in a few minutes.

Five captioners are trained on the toy world's tidy images and let loose on its wild ones. captrial then asks its
three questions: which is best (simulated people label the few images that decide, over the real web application), do
they look at what they say, and do they look where a person would. The captioners that ship with the package are shown
on photographs. One page tells it all.
"""
