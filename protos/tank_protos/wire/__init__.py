"""The parts that all codecs of bytes on a connection share.

- `errors`: the errors for bytes that can't be read, and for values that can't be written
- `buffer`: the types of bytes
- `framing`: frames: their head (a message id and a length), whole ones, and how a stream is cut into them
- `message`: the base of all generated messages, and their reader
- `varint`, `tagged`, `keyed`: numbers of variable length, tagged fields, lists that are found by key
- `names`: names of topics and groups as bytes
"""
