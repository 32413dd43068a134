"""Kafka's protocol: sessions with Kafka's clients, and the handler of each request. No I/O, no clock.

- `session`: the conversation on one connection, and its requests under way; `dispatch`: the table of
  handlers, and the making of sessions
- `frame_size`: frames of a wrong size
- `errors`: Kafka's error codes, and the refusals of brokers, coordinators and controllers as such
- `settings`: what an operator sets
- `topic_names`: which names are valid, and which are the cluster's own
- `topic_configs`: the settings of topics under Kafka's names; `config_values`: how their values are read and
  shown; `broker_configs`: the settings of brokers; `config_resources`: what has settings
- `replication_factors`: the default
- `leaders`: who leads a partition, and where a client reaches a broker; `listed_brokers`: all brokers, as a
  client gets them
- `led`: the partition that a request names; `settling`: waiting until its leader knows its end, and
  pauses of long requests; `lost_leaders`: waiting while a leader has just died
- `shared_state`: what all sessions of a broker share
- `api_versions`: the requests that this broker answers, in which versions
- `produce`: batches are appended; `produce_forms`: by requests of a learned form; `produce_answer`: their
  results; `produced_records`: what is checked of a batch, and converted; `request_room`: what the batches of
  a request may cost; `init_producer_id`: ids for idempotent producers
- `fetch`: records, or a wait for some; `fetch_read`, `partition_read`: what is found; `fetch_answer`: its
  bytes; `fetch_sessions`, `fetch_context`: what clients fetch again and again, `fetch_forms`: by requests of
  a learned form; `bundle_converter`: bundles as record batches
- `metadata`: brokers, topics and leaders; `auto_creation`: topics that are created by the question for them;
  `topic_slices`: long answers, made in several turns; `metadata_answers`: answers that clients share
- `describe_cluster`, `describe_topic_partitions`: the same for administration clients;
  `authorized_operations`: what a client may do
- `list_offsets`: the ends of partitions, and records by their times; `offset_for_leader_epoch`,
  `epoch_ends`: where epochs end
- `delete_records`: raising the first offset
- `describe_log_dirs`, `describe_producers`, `list_partition_reassignments`: what a broker has, and what moves
- `elect_leaders`, `alter_partition_reassignments`: `replica_changes` proposes them to the controllers
- `acls`, `describe_client_quotas`, `describe_user_scram_credentials`, `sasl`: of these there are none
- `find_coordinator`: the broker that coordinates a group; `join_group`, `sync_group`, `heartbeat`,
  `leave_group`, `consumer_group_heartbeat`: members of groups; `client_host`: their addresses;
  `offset_commit`, `offset_fetch`: how far groups have read
- `list_groups`, `describe_groups`, `consumer_group_describe`, `delete_groups`, `offset_delete`: groups, for
  administration clients
- `create_topics`, `create_partitions`, `delete_topics`: changes of topics; `topic_changes`: until the
  controllers have made them; `assignments`: brokers that clients choose
- `describe_configs`: settings; `alter_configs`, `incremental_alter_configs`: their changes, `config_changes`:
  what both have in common
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
