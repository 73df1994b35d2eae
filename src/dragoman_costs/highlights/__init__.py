"""What a dashboard says of anomalies and savings."""
