"""The bytes of Iggy's protocol in all of its eras, without clocks, logs or sockets.

Messages are in `tank_protos.generated.iggy`, one version for each era; here is what a definition can't say.

- `eras`: what changed from release to release; `era_detector`: which of them a connection speaks
- `classic`, `vsr`: the two framings; `commands`: the numbers of commands in both
- `errors`: the error codes, by era; `limits`: all bounds; `kinds`: the numbers that stand for a choice
- `identifiers`, `partitioning`: how streams, topics and partitions are named
- `header_map`, `options`: maps of headers and options; `topic_options`: in the controllers' messages
- `tolerant`: requests that clients write in several ways, or wrongly
- `send`: the parts of a send and of its answer; `sent_messages`: its messages, as a record batch or a bundle
- `polled_messages`: stored batches as the answer to a poll; `stored_header`: what a record keeps beside them
- `checksums`: of messages and keys
"""
