"""Kubernetes, as a controller in a pod uses it: it reads StatefulSets, and writes events.

- `api_server`, `client`: requests to the API server
- `watch`: the state of a watched StatefulSet
- `events`: the bodies of events; a repeated event has a count
- `controllers`: scaling of the controllers
- `left_behind`, `missing_members`: members of the group that have no pod any more
- `volume_snapshots`: a program that takes snapshots of a release's volumes
"""
