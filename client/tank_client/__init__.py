"""The client library: Client, Producer, Consumer and Admin, async and sync."""
