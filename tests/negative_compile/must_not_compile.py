#!/usr/bin/env python3
"""must_not_compile.py SNIPPET -- COMPILER FLAGS...: holds a snippet to its `// error: REGEX` line.

The snippet must compile with -DCONTROL, and without it must fail with a message the pattern finds.
"""

import re
import subprocess
import sys


def compiles(command, snippet, *flags):
    done = subprocess.run([*command, *flags, "-fsyntax-only", snippet],
                          capture_output=True, text=True, check=False)
    return done.returncode == 0, done.stderr


def main():
    snippet, dashes, *command = sys.argv[1:]
    assert dashes == "--" and command, __doc__
    with open(snippet, encoding="utf-8") as file:
        pattern = re.search(r"^// error: (.+)$", file.read(), re.MULTILINE)
    if not pattern:
        return f"{snippet} has no line '// error: REGEX'"

    control, message = compiles(command, snippet, "-DCONTROL")
    if not control:
        return f"the control does not compile:\n{message}"
    wrong, message = compiles(command, snippet)
    if wrong:
        return "the wrong use compiles"
    if not re.search(pattern.group(1), message):
        return f"it fails, but not with /{pattern.group(1)}/:\n{message}"
    return None


if __name__ == "__main__":
    sys.exit(main())
