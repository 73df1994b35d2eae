"""Who may act for whom: a name that a grant covers is checked, any other is a claim."""
