"""Processes of brokers and controllers, proxies between them, and other versions of them."""
