"""Messages that hold JSON objects, decoded as Spark's own JSON source decodes them.

- `values`: messages to columns; `rows`: one object at a time, where Arrow's reader is not enough
- `text`: a value as Spark writes it
"""
