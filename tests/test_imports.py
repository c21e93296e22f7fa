"""Who may import whom, read from the source: the rooms stay separate, private JAX is unused."""

import ast
import contextlib
import functools
import importlib
import importlib.util
import pathlib
import re

import pytest

PACKAGE = pathlib.Path(__file__).parent.parent / "cgjax"
# room -> rooms it may import; the others may import every room
ALLOWED = {
    "core": {"core"},
    "config": {"core", "config"},
    "published": {"core", "published"},
    "data": {"core", "data"},
    "nets": {"core", "nets"},
    "analysis": {"core", "published", "analysis"},
    "plots": {"core", "plots"},
    "experiments": {"core", "data", "nets", "analysis", "plots", "published", "config"},
}


EVERY = ("predict", "coverage")  # the families that may import others; no family imports them


SOURCES = sorted(PACKAGE.rglob("*.py"))
TESTS = sorted(pathlib.Path(__file__).parent.rglob("*.py"))


def nodes_in(source: str) -> list:
    """The nodes that tests ask for; all others are half of a file's nodes."""
    asked = (ast.Import, ast.ImportFrom, ast.Attribute, ast.Name, ast.arg, ast.FunctionDef)
    return [
        node for node in ast.walk(ast.parse(source)) if isinstance(node, (*asked, ast.Constant))
    ]


@functools.cache
def parsed(path):
    return nodes_in(path.read_text())


def imports(nodes):
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            for alias in node.names:
                yield f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name


def room(module):
    parts = module.split(".")
    return parts[1] if parts[0] == "cgjax" and len(parts) > 1 else None


def parts_of(path):
    return path.relative_to(PACKAGE).with_suffix("").parts


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: "/".join(parts_of(path)))
def test_rooms(path):
    parts = parts_of(path)
    for module in imports(parsed(path)):
        assert not module.startswith("tensorflow.") and module != "tensorflow"
        target = room(module)
        if parts[0] in ALLOWED and target:
            own = target == "experiments" == parts[0] and is_own_family(parts, module)
            assert own or target in ALLOWED[parts[0]], f"{'/'.join(parts)} imports {module}"
        for name in EVERY:
            of_it = parts[:2] == ("experiments", name)
            assert of_it or not module.startswith(f"cgjax.experiments.{name}"), module


def is_own_family(parts, module):
    """Families never import each other; a family's folders are parts of it.

    Those of EVERY may import every family.
    """
    if len(parts) < 3 or parts[1] in EVERY:
        return True
    return module.split(".")[2:3] in ([], [parts[1]])


def test_families_are_told_apart():
    vectors = ("experiments", "vectors", "run")
    support = ("experiments", "sprites", "support", "run")
    assert is_own_family(vectors, "cgjax.experiments.vectors.readme")
    assert is_own_family(support, "cgjax.experiments.sprites.scenes")
    assert not is_own_family(vectors, "cgjax.experiments.sprites.scenes")
    assert not is_own_family(support, "cgjax.experiments.vectors")
    assert is_own_family(("experiments", "predict", "run"), "cgjax.experiments.vectors.run")
    assert not is_own_family(vectors, "cgjax.experiments.predict.run")


def bound_names(nodes) -> set[str]:
    """Names that a file gives another value somewhere: arguments, targets, functions."""
    names = {n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    names |= {n.arg for n in nodes if isinstance(n, ast.arg)}
    return names | {n.name for n in nodes if isinstance(n, ast.FunctionDef)}


def test_attributes_of_imported_modules_exist():
    """Tests that seldom run are the first to reach some lines: this one notices a moved name."""
    missing = []
    for path in SOURCES + TESTS:
        nodes = parsed(path)
        modules = {}
        for node in nodes:
            is_import = isinstance(node, ast.ImportFrom) and not node.col_offset
            if is_import and (node.module or "").startswith("cgjax"):
                for alias in node.names:
                    with contextlib.suppress(ImportError):
                        module = importlib.import_module(f"{node.module}.{alias.name}")
                        modules[alias.asname or alias.name] = module
        modules = {name: modules[name] for name in modules.keys() - bound_names(nodes)}
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                module = modules.get(node.value.id)
                if module is not None and not hasattr(module, node.attr):
                    missing.append(f"{path.name}:{node.lineno} {node.value.id}.{node.attr}")
    assert not missing


def named_in_strings(nodes) -> list[tuple[str, str]]:
    """(module, name) of each `from cgjax... import name` in the strings of a source."""
    strings = (node.value for node in nodes if isinstance(node, ast.Constant))
    statement = re.compile(r"from (cgjax(?:\.\w+)*) import (\w+(?:, \w+)*)")
    matches = (
        match for text in strings if isinstance(text, str) for match in statement.finditer(text)
    )
    return [(match[1], name) for match in matches for name in match[2].split(", ")]


def test_programs_in_strings_import_what_exists():
    """Processes run them: no import of the file itself notices that a name has moved."""
    asked = {pair: path.name for path in SOURCES + TESTS for pair in named_in_strings(parsed(path))}
    assert len(asked) > 10
    for (module, name), file in asked.items():
        if not hasattr(importlib.import_module(module), name):
            assert importlib.util.find_spec(f"{module}.{name}"), f"{file}: {module}.{name}"


def dotted(node) -> str:
    """`a.b.c` of attributes that begin with a name, else the empty string."""
    if isinstance(node, ast.Attribute):
        return (start := dotted(node.value)) and f"{start}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def private_names(nodes) -> list[str]:
    """Names of private JAX modules that a source imports or reaches through attributes."""
    used = [*imports(nodes), *map(dotted, nodes)]
    private = re.compile(r"jaxlib\b|jax(\.\w+)*\._(?!_)")  # jax.__version__ is public
    return [name for name in used if private.match(name)]


@pytest.mark.parametrize(
    "source",
    ["import jax._src.core", "from jax._src import core", "from jax import _src", "jax._src.x()"],
)
def test_private_names_are_recognised(source):
    assert private_names(nodes_in(source))


def test_no_module_uses_private_jax():
    source = "from jax.extend import core\nprint(jax.__version__, jax.tree.map(f, x)._replace())"
    assert not private_names(nodes_in(source))
    assert len(SOURCES) > 20
    assert not {path.name: names for path in SOURCES if (names := private_names(parsed(path)))}
