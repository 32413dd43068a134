"""A node's data folder: its logs, and the files that describe them across a crash.

- `data_folder`, `meta`, `claims`: the folder, its identity, and what the broker says of it when it registers
- `checkpoint_file`: the ends of all logs, written at intervals
- `flusher`, `one_thread`: fsyncs and other slow work of the disk, in threads
- `removal`, `usage`: deleting folders, and the sizes of what is stored
"""
