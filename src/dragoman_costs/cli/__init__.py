"""The commands of costs that are more than one operation each: charts, files, and what a person types first."""
