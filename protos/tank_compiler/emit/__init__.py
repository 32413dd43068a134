"""Python code of the messages.

- `package`, `module`: all files, and one of them
- `methods`, `decode`, `encode`, `headers`: the parts of a class
- `python_types`: the type of a field
- `writer`: lines with their indentation
- `generated_import`: tries what would be written
"""
