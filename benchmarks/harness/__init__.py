"""What benchmarks share: systems that are measured, load, turns, and tables of figures.

- `servers`, `local_cluster`, `group_nodes`, `stock_failover`: what is measured, started and ended
- `load_generator`, `franz`, `closed_loops`, `kafka_frames`, `iggy_frames`, `spark_jobs`: load
- `cases`, `peers`, `failover_scene`: what is compared with what
- `paired`, `side_by_side`: two things in turn
- `command_line`, `display`, `table`: options, progress, figures
"""
