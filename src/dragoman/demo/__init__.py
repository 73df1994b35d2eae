"""The ninety-second story: one action through three doors, an approval, a crash, and a record that cannot be bent."""
