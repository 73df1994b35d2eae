"""What may be spent in a month, a quarter or a year, and alerts when it is, or will be."""
