"""The same raw requests, played to real Kafka 4.1 and to a broker of ours, and compared answer by answer.

- `kafka_server`: real Kafka, one node, from Maven's jars
- `our_server`: a broker of ours that is set up the same
- `talk`: what a script says on its connections, and hears
- `answer_text`: an answer as a line of text, without what differs from run to run
- `group_calls`: the requests that scripts are made of
- `joining`, `sharing`, `timing`, `static_members`, `offsets`, `group_admin`, `consumer_groups`, `migration`,
  `epochs`: the scripts
- `scripts`: all of them, and how they are played
- `known`: where our answers differ from Kafka's on purpose, each with its reason
- `side_by_side`: both servers at once
- `recorded`: what Kafka 4.1 answered, kept in `kafka_4_1.json`, with which every run of the tests compares
"""
