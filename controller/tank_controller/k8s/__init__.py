"""Kubernetes, as a controller in a pod uses it: it reads StatefulSets, and writes events.

- `api_server`, `client`: requests to the API server
- `watch`: a StatefulSet that is followed
- `events`: events, counted and told anew
- `controllers`: more or fewer controllers
- `left_behind`, `missing_members`: members of the group that have no pod any more
- `volume_snapshots`: a program that takes snapshots of a release's volumes
"""
