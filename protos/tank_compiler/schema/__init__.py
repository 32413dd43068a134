"""The schema of messages, and its loading from definitions.

- `schema`: messages, structs and fields
- `definition_files`, `source`, `members`: the definitions' files; JSON with line numbers; typed access to it
- `loading`, `message_loading`, `struct_loading`: from JSON to the schema
- `field_types`, `values`, `conditions`, `tags`: the keys of a field
- `fast_writers`, `counts`: the keys that ask for further generated code
- `errors`: errors in a definition
- `layouts`: a message's layouts, one for each range of versions with the same bytes
- `wire_size`: the fewest bytes that a value takes
- `headers`: the header's version before a message
- `names`: names in Python
"""
