"""What clouds cost: accounts, FOCUS billing data, anomalies, recommendations, and whether the savings came."""
