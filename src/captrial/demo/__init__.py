"""The demonstration: a whole trial on rendered pictures, offline, in a few minutes.

Five captioners are trained on the toy world's tidy pictures and let loose on its wild ones. captrial then asks its
three questions: which is best (simulated people label the few pictures that decide, over the real web application), do
they look at what they say, and do they look where a person would. The captioners that ship with the package are shown
on photographs. One page tells it all.
"""
