"""Small templates that exercise one feature each: a written list and a seeded generator."""
import pathlib

VARIABLES = {
    "s": "Hello, World", "u": "naïve ΣΑΣ ß İ ǆ", "e": "", "w": "  a b\t c \n", "n": None, "t": True,
    "f": False, "i": 7, "z": 0, "neg": -3, "x": 2.5, "big": 12345678901234567890, "small": 1e-07,
    "l": [3, 1, 2], "ls": ["b", "A", "c", "a"], "le": [], "ll": [[1, 2], [3], []],
    "d": {"b": 1, "a": "x", "C": None, "items": 5}, "de": {},
    "ld": [{"n": "x", "v": 2, "o": {"k": 1}}, {"n": "Y", "v": 1, "o": {"k": 0}}, {"v": 3}],
    "mixed": [1, "a", None, 2.0, [1], {"k": "v"}, True], "lines": "one\ntwo\r\nthree\n\nfour",
    "html": "<b>&amp; 'q' \"d\"</b>", "quote": "it's", "both": "it's \"so\"",
    "ctl": "a\x07\x1b\x7fb",
    "emoji": "😀é\u0301\u200b\ufeff", "num": "42", "flt": " 3.75 ", "path": "a/b c?d=é&f",
}

# One to a line.
WRITTEN = pathlib.Path(__file__).with_name("snippets.txt").read_text(encoding="utf-8")
WRITTEN = WRITTEN.rstrip("\n").split("\n")

# Snippets that need more than one line.
MULTILINE = [
    "{% for q in l %}\n  {{ q }}\n{% endfor %}\nend\n",
    "{% for q in l -%}\n  {{ q }}\n{%- endfor %}\nend\n\n",
    "  {% if t %}\n  yes\n  {% else %}\n  no\n  {% endif %}\n  tail",
    "a\n  {# comment #}\nb\n{#- c -#}\nd {# x #} e\n  {#+ kept #}\nf",
    "a\r\nb\r{{ s }}\r\n{% if t %}\r\nx\r\n{% endif %}\r\n",
    "  {%- if t %}\n x {%- endif %}\n y  {%+ if t %} z {% endif +%}\n w",
    "{{ 'multi\nline' }}{{ [1,\n 2,\n 3] }}\n{{ s\n | upper }}\n",
    "{% set q %}\n  text\n{% endset %}[{{ q }}]",
    "{% macro m(a) %}\n  <{{ a }}>\n{% endmacro %}\n{{ m(1) }}\n{{- m(2) }}\n",
    "{% raw %}\n{{ x }}\n{% endraw %}\nafter", "  {% raw -%}\n  x\n  {%- endraw %}\nafter",
    "\n", "\n\n", "", "a\n", "a\n\n", "{{ s }}\n", "{{ s }}\n\n", "{% if t %}\n{% endif %}\n",
    "{% if t %}   \n  x{% endif %}   \n", "\t{% if t %}\n\tx\n\t{% endif %}\n",
    "x {% if t %}\n  y {% endif %} z\n", "\u00a0{% if t %}y{% endif %}",
    "{{ s }}  {% if t %}\nq{% endif %}",
    "{%- for q in l %}\n\n  {{- q }}\n\n{%- endfor -%}\n\n x",
    "{% set q = {\n  'a': 1,\n  'b': [1, 2],\n} %}{{ q }}",
    "{% if t -%}\n\n  x\n\n  {%- endif %}\n\ny",
]

# No literals: jinja2 folds constants, and folded subscripts forgive what running ones do not.
ATOMS = ["s", "u", "e", "w", "n", "t", "f", "i", "z", "neg", "x", "l", "ls", "le", "ll", "d", "de",
         "ld", "mixed", "lines", "html", "quote", "both", "num", "flt", "nope", "big", "emoji",
         "small", "path", "range(i)", "(i, s)", "[l, n]", "{'k': s, 'n': l}"]
FILTERS = [
    "upper", "lower", "title", "capitalize", "trim", "length", "list", "first", "last", "sort",
    "reverse", "join(', ')", "join", "tojson", "tojson(indent=2)", "string", "int", "float", "abs",
    "round", "default('dflt')", "default('dflt', true)", "unique", "sum", "min", "max",
    "replace('a', 'b')", "replace('l', '')", "items", "dictsort", "map('string')", "map('upper')",
    "map(attribute='v')", "map(attribute=0)", "select", "reject", "select('string')",
    "select('defined')", "selectattr('v')", "rejectattr('n', 'none')", "batch(2)", "slice(2)",
    "indent", "indent(2, true)", "truncate(6)", "truncate(6, true, '')", "center(9)", "escape",
    "safe", "e", "wordcount", "urlencode", "groupby('v')", "list | first", "list | tojson",
    "sort(reverse=true)", "tojson(sort_keys=true)", "tojson(ensure_ascii=true)",
    "tojson(separators=(',', ':'))", "format(1)", "round(1)", "round(0, 'ceil')", "int(base=16)",
    "trim('Hab')", "filesizeformat",
]
LAZY = ("items", "map", "select", "reject", "batch", "slice", "unique", "reverse")
METHODS = ["upper()", "lower()", "strip()", "lstrip('H ')", "rstrip()", "split()", "split('l')",
           "split(',', 1)", "rsplit('l', 1)", "splitlines()", "title()", "capitalize()",
           "startswith('He')", "endswith('d')", "replace('l', 'LL')", "find('l')", "count('a')",
           "join(ls)", "items()", "keys()", "values()", "get('a')", "get('k', 5)", "index(1)",
           "isdigit()", "isalpha()", "isupper()", "format(1, 2)", "partition(',')", "zfill(9)",
           "swapcase()", "removeprefix('He')", "center(8, '*')", "copy()", "a", "v", "items", "k"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "mapping",
         "sequence", "iterable", "boolean", "true", "false", "odd", "even", "lower", "upper",
         "callable", "divisibleby(2)", "eq('lit')", "in [1, 2, 'lit']", "gt 1", "escaped",
         "not defined", "not none", "not string"]
SUBSCRIPTS = ["[0]", "[-1]", "[1:]", "[:2]", "[::-1]", "[::2]", "[-2:]", "['a']", "['k']", "[9]",
              "[1:-1]", "[n]", "[3:1]"]
BINARY = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", ">=", "in", "not in", "and", "or"]


def expression(rng, depth):
    roll = rng.random()
    if depth == 0 or roll < 0.12:
        return rng.choice(ATOMS)
    inner = expression(rng, depth - 1)
    if roll < 0.45:
        name = rng.choice(FILTERS)
        # A generator prints as its address, so it is made a list first.
        return f"({inner} | {name}{' | list' if name.startswith(LAZY) else ''})"
    if roll < 0.6:
        return f"({inner}).{rng.choice(METHODS)}"
    if roll < 0.7:
        return f"({inner}){rng.choice(SUBSCRIPTS)}"
    if roll < 0.78:
        return f"({inner} is {rng.choice(TESTS)})"
    if roll < 0.93:
        return f"({inner} {rng.choice(BINARY)} {expression(rng, depth - 1)})"
    if roll < 0.96:
        return f"({inner} if {expression(rng, 1)} else {expression(rng, depth - 1)})"
    return f"[{inner}, {expression(rng, depth - 1)}]"


def snippet(rng):
    value = expression(rng, rng.randint(1, 3))
    roll = rng.random()
    if roll < 0.7:
        return "{{ " + value + " }}"
    if roll < 0.8:
        return "{% for q in " + value + " %}{{ loop.index }}{{ q }}{{ loop.last }};{% endfor %}"
    if roll < 0.9:
        return "{% set q = " + value + " %}{{ q }}|{{ q is defined }}"
    return "{% if " + value + " %}yes{% else %}no{% endif %}"
