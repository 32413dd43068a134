"""The message compiler: definitions in JSON to Python codecs, a reference and a corpus."""
