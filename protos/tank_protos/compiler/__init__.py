"""The message compiler: definitions in JSON to Python codecs, a reference and a corpus.

Where to begin, and what each module is for:

- What a definition means: `schema`. From text to it: `source` (JSON with lines), `members` (typed access),
  `loading`, then `message_loading` and `struct_loading` with `field_types`, `values`, `conditions` and `tags`
  for the keys of a field. What is wrong is an `errors.DefinitionError`. `definition_files` finds the texts.
- What holds in one version: `layouts` makes of a message one for each range of versions with the same bytes;
  `wire_size` knows how few bytes a value takes, `headers` which header stands before it.
- Python code: `emit_package` writes `emit_module` (classes) with `emit_methods`, `emit_decode` and
  `emit_encode` (each with parts for lists, lengths and tags), and `emit_headers`. `python_types`, `names` and
  `writer` help them. `generated_import` tries what would be written.
- What else is made: `reference` (the pages of docs/protocol) and `corpus` (the seeds of fuzzing).
- Second opinions, slow and plain, which walk the schema: `interpreter` writes bytes, `dissect` reads them.
- The commands: `cli` (generate), `cli_verify` with `verify` and `json_form`, `cli_check` with `compatibility`
  and `compatibility_structs`, `cli_decode` with `decode_stream`, a protocol each in `decode_tank` and
  `decode_kafka`, `decode_json` and `hex_input`. Files are touched by the `cli` modules, `definition_files`
  and `generated_import` alone.
"""
