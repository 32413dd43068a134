"""A node's data folder: which logs it has, and what is said of them where a crash can't reach it.

- `data_folder`, `meta`, `claims`: the folder, who it belongs to, what its replicas may claim
- `checkpoint_file`: the ends of all logs, written now and then
- `flusher`, `one_thread`: fsyncs, in a thread of their own
- `removal`, `usage`: folders that go, and what is stored
"""
