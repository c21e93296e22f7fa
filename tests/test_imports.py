"""Who may import whom, read from the source: the rooms stay separate."""

import ast
import pathlib

import pytest

PACKAGE = pathlib.Path(__file__).parent.parent / "cgjax"
# room -> rooms it may import; "" is the package's top level (config, published, plots ...)
ALLOWED = {
    "core": {"core"},
    "data": {"core", "data"},
    "nets": {"core", "nets"},
    "analysis": {"core", "analysis"},
    "plots": {"core", "plots"},
    "published": {"published"},
    "config": {"core", "config"},
    "experiments": {"core", "data", "nets", "analysis", "plots", "published", "config"},
}


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
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


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: p.stem)
def test_rooms(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    for module in imports(path):
        assert not module.startswith("jax._src"), f"{path.name} uses private JAX: {module}"
        assert not module.startswith("tensorflow.") and module != "tensorflow"
        target = room(module)
        if parts[0] in ALLOWED and target:
            if parts[0] == "experiments":
                family = module.split(".")[2:3]
                own = target == "experiments" and (len(parts) < 3 or family in ([], [parts[1]]))
                assert own or target in ALLOWED["experiments"], f"{path.name} imports {module}"
            else:
                assert target in ALLOWED[parts[0]], f"{path.name} imports {module}"
