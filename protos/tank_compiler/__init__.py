"""The message compiler: definitions in JSON to Python codecs, a reference and a corpus. A tool: no broker,
controller or client imports it.

- `schema`: what a definition means, and from text to it
- `emit`: Python code
- `tools`: the commands, and what they make or compare besides
"""
