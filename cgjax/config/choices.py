"""Names in a table of a module, read from its source.

Many choices of a config are names of functions, in tables of modules that import JAX. That import
takes a second; a refused command and a list of rows do without it.
"""

import ast
import functools
import pathlib

PACKAGE = pathlib.Path(__file__).parent.parent


def names_in(module: str, table: str) -> tuple:
    """Keys of a dict, or items of a tuple, that a module of this package assigns to `table`.

    A table may contain others, as `**table`, `*table` or `*module.table`, also imported ones.

    >>> names_in("experiments.sprites.models", "DTYPES")
    ('float32', 'bfloat16')
    """
    value = _globals(module)[table]
    return names_in(*value) if isinstance(value, tuple) else tuple(_names(module, value))


def _names(module: str, table: ast.Dict | ast.Tuple):
    if isinstance(table, ast.Dict):
        entries = [key or value for key, value in zip(table.keys, table.values)]
    else:
        entries = [item.value if isinstance(item, ast.Starred) else item for item in table.elts]
    for entry in entries:
        if isinstance(entry, ast.Name):
            yield from names_in(module, entry.id)
        elif isinstance(entry, ast.Attribute):
            yield from names_in(".".join(_globals(module)[entry.value.id]), entry.attr)
        else:
            yield ast.literal_eval(entry)


@functools.cache
def _globals(module: str) -> dict:
    """What a module assigns to its names; (module, name) of those that it imports."""
    path = PACKAGE.joinpath(*module.split("."))
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    values = {}
    for node in ast.parse(source.read_bytes()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            values[node.targets[0].id] = node.value
        elif isinstance(node, ast.ImportFrom) and node.module.startswith("cgjax."):
            home = node.module.removeprefix("cgjax.")
            values |= {name.asname or name.name: (home, name.name) for name in node.names}
    return values
