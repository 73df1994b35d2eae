"""Made-up spend of several clouds, with known waste and known surprises in it."""
