"""What could be saved: found by rules in the bills, decided by people, carried out as delegated tasks, and checked."""
