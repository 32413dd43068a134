"""Values, messages and bundles to try codecs with."""
