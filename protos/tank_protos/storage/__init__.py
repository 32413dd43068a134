"""The formats in which a broker stores batches and pushes them to followers.

- `index_record`: the record of one batch in an index
- `record_run`: many records at once
- `produce_run`: produce requests with one batch each, found without decoding the requests
- `stretch`: stored batches with their records, as a leader pushes them
"""
