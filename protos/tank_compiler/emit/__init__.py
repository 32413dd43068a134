"""Writes the Python code of the messages.

- `package`, `module`: a protocol's package, and the module of one message
- `methods`, `decode`, `encode`: the methods of a message's class
- `headers`: the module with the versions of request and response headers
- `count`: the method that counts a list's elements before they are decoded
- `fast`: writers that make bytes without objects of messages
- `python_types`: types, default values and conditions as Python code
- `writer`: lines with their indentation
- `generated_import`: imports a generated package from a temporary folder
"""
