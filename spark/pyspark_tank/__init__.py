"""Tank as a Spark data source."""
