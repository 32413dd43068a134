"""A controller's process: it builds the rooms below, runs them, and takes them apart.

- `process`: from the configuration to the end of the process
- `standalone`: the controller inside a broker's process that runs alone
- `taking_down`: the end of a whole release
- `group_watches`: what a controller in a pod watches of its group
"""
