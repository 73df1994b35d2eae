"""Who did what, provably."""
