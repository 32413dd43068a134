"""What bytes on a connection are made of: the parts that all codecs share.

- `errors`: why bytes can't be read, or values not be written
- `buffer`: what a codec reads from
- `framing`: frames: a message id, a length, a payload
- `message`: the base of all generated messages, and their reader
- `varint`, `tagged`, `keyed`: numbers of variable length, tagged fields, lists that are found by key
- `names`: names of topics and groups as bytes
"""
