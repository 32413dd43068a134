"""Producers, consumers and members of groups, of our protocol and of Kafka's."""
