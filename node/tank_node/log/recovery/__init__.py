"""Opening a log after a crash, and after damage.

- `recovery`: the ends of a log's files, and what is cut from them
- `mend`: a log without what was damaged
- `folder_files`: what a log's folder holds
- `checkpoint`: how far each log was known to be good
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
