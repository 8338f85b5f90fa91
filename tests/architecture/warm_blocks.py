"""Runs blocks of Python from the manual: a process that has imported what is slow, and forks for each block.

    one line in    the code, as JSON
    one line out   [exit code, standard output, standard error]

The child runs the code as `python -c` does and ends as an interpreter ends. What the code itself imports is
looked up as usual, only faster.
"""

import gc
import json
import os
import sys
import tempfile

# What nearly every block needs.
SLOW = ("anthropic", "everturn.session.session", "everturn.twin.testing")


def main() -> None:
    for name in SLOW:
        __import__(name)
    # A child that ends looks for garbage: not in what it did not make.
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            child = os.fork()
            if child == 0:
                os.dup2(out.fileno(), 1)
                os.dup2(err.fileno(), 2)
                exec(compile(json.loads(line), "<string>", "exec"), {"__name__": "__main__"})
                return
            _, status = os.waitpid(child, 0)
            answer = [os.waitstatus_to_exitcode(status)]
            for file in (out, err):
                file.seek(0)
                answer.append(file.read().decode())
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
