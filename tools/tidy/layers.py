"""Who may include whom: the table of docs/architecture.md, held against every #include line."""

import re

from source_tree import Finding

# Everything may include base; a module may include itself.
DEPENDENCIES = {
    "base": set(),
    "telemetry": set(),
    "wire": set(),
    "quant": set(),
    "text": set(),
    "device": {"telemetry"},
    "http": {"telemetry"},
    "chat": {"wire", "text"},
    "constraint": {"wire", "telemetry"},
    "kernels": {"quant", "device"},
    "parallel": {"device", "telemetry"},
    "kv": {"quant", "device", "kernels", "telemetry"},
    "sampling": {"wire", "device", "kernels"},
    "transfer": {"wire", "device", "kernels", "kv", "telemetry"},
    "model": {"quant", "device", "kernels", "parallel", "kv"},
    "engine": {"wire", "device", "kv", "model", "telemetry"},
    "prefill": {"wire", "engine", "kv", "transfer", "sampling", "telemetry"},
    "decode": {"wire", "engine", "kv", "transfer", "sampling", "telemetry"},
    "router": {"wire", "telemetry"},
    "api": {"wire", "http", "chat", "text", "router", "telemetry"},
}
DEPENDENCIES["serve"] = set(DEPENDENCIES)

# A model reads cache pages through views; allocation and tags are none of its business.
PARTIAL = {("model", "kv"): {"kv/layout.h"}}

# Code outside src/ that may include serve; everything else there may include all but serve.
MAY_INCLUDE_SERVE = ("apps/", "tests/")


def check(tree):
    findings = []
    for file in tree.cpp:
        if file.path.startswith("src/"):
            findings += _check_module_file(tree, file)
        else:
            findings += _check_outer_file(tree, file)
    findings += _check_declared(tree)
    findings += _check_cycles(tree)
    return findings


def module_of(path):
    return path.split("/")[1] if path.startswith("src/") else None


def allowed(module, include):
    target = include.split("/")[0]
    if target in (module, "base"):
        return True
    if target not in DEPENDENCIES[module]:
        return False
    partial = PARTIAL.get((module, target))
    return partial is None or include in partial


def _check_module_file(tree, file):
    module = module_of(file.path)
    if module not in DEPENDENCIES:
        return [Finding(file.path, 1, f"folder src/{module} has no row in tools/tidy/layers.py")]
    findings = []
    for include in file.includes:
        if not (tree.root / "src" / include.path).is_file():
            findings.append(Finding(file.path, include.line,
                                    f'"{include.path}" is not a path from src/'))
        elif not allowed(module, include.path):
            findings.append(Finding(file.path, include.line,
                                    f'{module} may not include "{include.path}"'))
    return findings


def _check_outer_file(tree, file):
    findings = []
    for include in file.includes:
        beside = (tree.root / file.folder / include.path).is_file()
        from_root = any((tree.root / top / include.path).is_file() for top in ("", "tests"))
        from_src = (tree.root / "src" / include.path).is_file()
        if not (beside or from_root or from_src):
            findings.append(Finding(file.path, include.line,
                                    f'"{include.path}" is neither in this folder nor in src/'))
        elif from_src and include.path.startswith("serve/") and not file.path.startswith(
                MAY_INCLUDE_SERVE):
            findings.append(Finding(file.path, include.line, "only apps may include serve"))
    return findings


def _check_declared(tree):
    """DEPS in a module's CMakeLists.txt name exactly what its sources include."""
    findings = []
    for build in tree.named("CMakeLists.txt"):
        module = module_of(build.path)
        if module not in DEPENDENCIES or build.path != f"src/{module}/CMakeLists.txt":
            continue
        declared = _declared(build.text, "DEPS")
        for name in sorted(declared - DEPENDENCIES[module] - {"base"}):
            findings.append(Finding(build.path, 1, f"{module} may not depend on {name}"))
        used = {}
        for file in tree.cpp:
            if module_of(file.path) == module and not file.is_test:
                for include in file.includes:
                    used.setdefault(include.path.split("/")[0], (file, include))
        for name, (file, include) in sorted(used.items()):
            if name in DEPENDENCIES and name != module and name not in declared:
                findings.append(Finding(
                    file.path, include.line,
                    f'includes "{include.path}", but {build.path} does not list {name} in DEPS'))
    return findings


def _declared(text, keyword):
    text = re.sub(r"#[^\n]*", "", text)
    names = set()
    for match in re.finditer(rf"\b{keyword}\b([^)]*?)(?=\b[A-Z_]{{3,}}\b|\))", text):
        names |= set(match.group(1).split())
    return names


def _check_cycles(tree):
    """No header reaches itself, and no folder below a module reaches itself through another."""
    files = {file.path[len("src/"):]: file for file in tree.cpp if file.path.startswith("src/")}
    edges = {name: [i.path for i in file.includes if i.path in files]
             for name, file in files.items()}
    findings = []
    for cycle in cycles(edges):
        findings.append(Finding("src/" + cycle[0], 1,
                                "includes go round: " + " -> ".join(cycle + cycle[:1])))
    modules = {}
    for name, targets in edges.items():
        if files[name].is_test:
            continue
        module = name.split("/")[0]
        modules.setdefault(module, set()).update(
            target.split("/")[0] for target in targets if target.split("/")[0] != module)
    for cycle in cycles({name: sorted(targets) for name, targets in modules.items()}):
        findings.append(Finding("src/" + cycle[0], 1,
                                "modules go round: " + " -> ".join(cycle + cycle[:1])))
    return findings


def cycles(edges):
    """One cycle for every knot of the graph, as a list of nodes; iterative, for deep graphs."""
    state, found = {}, []
    for root in sorted(edges):
        if root in state:
            continue
        state[root] = "open"
        stack = [(root, iter(edges[root]))]
        path = [root]
        while stack:
            node, targets = stack[-1]
            for target in targets:
                if target not in state:
                    state[target] = "open"
                    stack.append((target, iter(edges.get(target, ()))))
                    path.append(target)
                    break
                if state[target] == "open":
                    found.append(path[path.index(target):])
            else:
                state[node] = "done"
                stack.pop()
                path.pop()
    return found
