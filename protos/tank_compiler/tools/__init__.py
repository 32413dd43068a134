"""The commands of `tank-protos`, and the outputs that are not Python code.

- `cli`: generate
- `cli_check`, with `compatibility` and `compatibility_structs`
- `cli_verify`, with `verify` and `json_form`
- `cli_decode`, with `decode_stream`, a protocol each in `decode_tank` and `decode_kafka`,
  `decode_json` and `hex_input`
- `reference`: the pages of docs/protocol
- `corpus`: the seeds of fuzzing
- `interpreter`, `dissect`: slow writers and readers of bytes that walk the schema, to check generated code

Only the `cli` modules, `schema.definition_files` and `emit.generated_import` read or write files.
"""
