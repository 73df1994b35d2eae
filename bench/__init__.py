"""The figures: each one measured beside something known, in one run, on the machine at hand."""
