"""A controller's process: it builds the parts below, runs them, and ends them.

- `process`: a controller's process, from its start to its end
- `first_start`: an empty controller, until it founds a cluster or joins one
- `standalone`: the controller inside a broker's process that runs alone
- `taking_down`: the next leader before this one stops, and the end of a whole release
- `group_watches`: tasks of a controller in a pod that look for lost members
"""
