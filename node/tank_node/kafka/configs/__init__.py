"""Settings under Kafka's names, and the requests that show and change them.

- `topic_configs`: of topics; `broker_configs`: of brokers; `config_resources`: what has settings
- `config_values`: how values are read and shown; `replication_factors`: the default
- `describe_configs`: shows them; `alter_configs`, `incremental_alter_configs`: change them, `config_changes`:
  what both have in common
"""
