"""Questions about costs in a small JSON language, answered from the smallest roll-up that can."""
