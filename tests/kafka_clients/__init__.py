"""Stock clients of Kafka's protocol against brokers of ours (`make kafka`): programs of the clients' own
libraries, installed beside the project.

- `programs/`: one program for each library; all have the same two commands
- `libraries`: installs the libraries and says how each program is run
- `brokers`: one broker, or three in a cluster, as processes
- `matrix`: each producer with each codec, read by each consumer
- `probes`, `spark`, `connect`: programs that walk through many steps by themselves
- `steps`: all steps of a run, one after the other
- `shown`: what a run prints, and keeps for the page on compatibility
- `groups`, `member`: members of groups share a topic
- `coordinator_kill`: what they do when their coordinator is killed
- `beside/`: real Kafka and a broker of ours answer the same raw requests
- `failover`: how long a producer waits when its leader is killed
"""
