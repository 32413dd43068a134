"""Groups and their coordinators."""
