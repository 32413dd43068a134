"""The message compiler: makes Python codecs, a reference and the fuzzer's corpus from definitions in JSON. A
tool: no broker, controller or client imports it.

- `schema`: reads definitions, and holds their meaning
- `emit`: writes Python code
- `tools`: the commands, and the other outputs and comparisons
"""
