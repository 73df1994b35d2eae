"""The composition root: the only place where concrete classes meet, and the processes that run them."""
