# SPDX-License-Identifier: MIT
"""Tables of pages, which stand between <!-- table NAME --> and <!-- / -->."""
import re

TABLE = re.compile(r"(<!-- table (\w+) -->\n).*?(<!-- / -->)", re.S)


def table(head, rows):
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head)] +
                     ["| " + " | ".join(r) + " |" for r in rows])


def fill(text, made):
    """A page with its tables made anew: made(NAME) is the lines of one."""
    return TABLE.sub(lambda m: m[1] + made(m[2]) + "\n" + m[3], text)
