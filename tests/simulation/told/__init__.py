"""Told stories: fixed orders of events that must do no harm, each in the file of its subject."""
