"""What a definition means, and the way from its text to that.

- `schema`: messages, structs and fields
- `definition_files`, `source`, `members`: texts; JSON with lines; typed access to it
- `loading`, `message_loading`, `struct_loading`: from JSON to the schema, with `field_types`, `values`,
  `conditions`, and `tags` for the keys of a field
- `errors`: what is wrong with a definition
- `layouts`: of a message one for each range of versions with the same bytes
- `wire_size`: how few bytes a value takes
- `headers`, `names`: which header stands before a message; how it is called in Python
"""
