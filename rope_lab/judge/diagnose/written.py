"""What a line means that looks like something else."""

import ast


def unlike_its_look(program: str) -> str:
    """A comparison with `&` or `|` in it and no parentheses, and what it means; '' if none is.

    `exists & a < b` is (exists & a) < b, because in Python `&` binds tighter than `<`.
    """
    for compared in ast.walk(ast.parse(program)):
        if not isinstance(compared, ast.Compare):
            continue
        written = ast.get_source_segment(program, compared)
        for part in (compared.left, *compared.comparators):
            is_joined = isinstance(part, ast.BinOp) and isinstance(part.op, ast.BitAnd | ast.BitOr)
            joined = ast.get_source_segment(program, part)
            if is_joined and f"({joined})" not in written:
                means = written.replace(joined, f"({joined})")
                return f"`{written}` means {means}: put each comparison in parentheses"
    return ""
