"""The commands of `tank-protos`, and what else is made of definitions.

- `cli`: generate
- `cli_check`, with `compatibility` and `compatibility_structs`
- `cli_verify`, with `verify` and `json_form`
- `cli_decode`, with `decode_stream`, a protocol each in `decode_tank` and `decode_kafka`,
  `decode_json` and `hex_input`
- `reference`: the pages of docs/protocol
- `corpus`: the seeds of fuzzing
- `interpreter`, `dissect`: second opinions, slow and plain, which walk the schema: one writes bytes,
  one reads

Files are touched by the `cli` modules alone, and by `definition_files` and `generated_import` of the rooms
beside.
"""
