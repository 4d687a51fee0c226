"""Small templates that exercise one feature each: a written list and a seeded generator."""

VARIABLES = {
    "s": "Hello, World", "u": "naïve ΣΑΣ ß İ ǆ", "e": "", "w": "  a b\t c \n", "n": None, "t": True,
    "f": False, "i": 7, "z": 0, "neg": -3, "x": 2.5, "big": 12345678901234567890, "small": 1e-07,
    "l": [3, 1, 2], "ls": ["b", "A", "c", "a"], "le": [], "ll": [[1, 2], [3], []],
    "d": {"b": 1, "a": "x", "C": None, "items": 5}, "de": {},
    "ld": [{"n": "x", "v": 2, "o": {"k": 1}}, {"n": "Y", "v": 1, "o": {"k": 0}}, {"v": 3}],
    "mixed": [1, "a", None, 2.0, [1], {"k": "v"}, True], "lines": "one\ntwo\r\nthree\n\nfour",
    "html": "<b>&amp; 'q' \"d\"</b>", "quote": "it's", "both": "it's \"so\"", "ctl": "a\x07\x1b\x7fb",
    "emoji": "😀é\u0301\u200b\ufeff", "num": "42", "flt": " 3.75 ", "path": "a/b c?d=é&f",
}

WRITTEN = r"""
{{ 1 }}{{ 1.0 }}{{ 1e100 }}{{ 1e16 }}{{ 123456789012345678.0 }}{{ 0.1 + 0.2 }}{{ 1e-5 }}{{ 100000.0 }}
{{ true }} {{ none }} {{ True }} {{ None }} {{ false }}
{{ [1, 'a', none, true, 1.5, {'k': [1]}] }}
{{ (1,) }} {{ () }} {{ (1, 2) }} {{ 1, 2 }}
{{ {'a': 1, "b": 'q"\''} }}{{ [quote, both, html, ctl, emoji] }}
{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }}
{{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 1 - -1 }} {{ +1 }} {{ - 1 }} {{ true + 1 }} {{ 'a' * 3 }} {{ 3 * [1] }}
{{ 'a' ~ 1 ~ none ~ true ~ 1.5 ~ [1] }} {{ 'a' 'b' "c" }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 1 != 2 }}
{{ 'a' in 'abc' }} {{ 1 in [1.0] }} {{ 'k' in {'k': 1} }} {{ 'x' not in ['x'] }} {{ 3 in range(5) }} {{ not 1 in [1] }}
{{ 1 if true else 2 }} {{ 1 if false }} {{ (1 if false) is defined }} {{ 1 if false else 2 if false else 3 }} {{ 'a' if t and not f or n }}
{{ n or 'x' }} {{ e and 1 }} {{ i and s }} {{ not e }} {{ n and undefined_thing }}
{{ s[0] }} {{ s[-1] }} {{ s[99] is defined }} {{ s[1:3] }} {{ s[::-1] }} {{ s[:-2] }} {{ s[::2] }} {{ s[5:2] }} {{ u[3:] }} {{ l[::-1] }} {{ l[1:] }} {{ l[-2:] }} {{ (1,2,3)[1:] }}
{{ d.b }} {{ d['a'] }} {{ d.items }} {{ d['items'] }} {{ d.nope is defined }} {{ d.get('nope') }} {{ d.get('nope', 4) }} {{ d.C }}
{{ d.pop is defined }} {{ l.append is defined }} {{ d.update is defined }} {{ d.__class__ }} {{ d._x is defined }}
{{ l.append(1) }}
{{ d.pop('a') }}
{{ nope }}|{{ nope is defined }}|{{ nope is undefined }}|{{ nope == nope2 }}|{{ nope | default('d') }}|{{ nope | length }}
{{ nope.x }}
{{ nope + 1 }}
{{ nope['a'] }}
{{ n.x is defined }} {{ i.x is defined }} {{ n['x'] is defined }} {{ n[1:] is defined }} {{ i[0] is defined }}
{{ nope < 1 }}
{{ nope() }}
{{ s() }}
{{ 1 + 'a' }}
{{ 'a' + 1 }}
{{ 1 / 0 }}
{{ l + (1,) }}
{{ n < 1 }}
{{ 1 in 5 }}
{{ 5 in 'a' }}
{{ {[1]: 2} }}
{{ 1 if nope else 2 }}{% for q in nope %}x{% else %}none{% endfor %}
{% for q in n %}{% endfor %}
{% for q in i %}{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for c in s %}{{ c }}.{% endfor %}
{% for a, b in [[1, 2], (3, 4), 'xy'] %}{{ a }}{{ b }} {% endfor %}
{% for a, b in [[1]] %}{% endfor %}
{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for q in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }};{% endfor %}
{% for q in l %}[{{ loop.previtem }}|{{ loop.nextitem }}|{{ loop.previtem is defined }}|{{ loop.nextitem is defined }}|{{ loop.cycle('a', 'b') }}|{{ loop.changed(q > 1) }}]{% endfor %}
{% for q in l if q > 1 %}{{ loop.index }}:{{ q }} {% else %}x{% endfor %}{% for q in l if q > 9 %}{% else %}empty{% endfor %}
{% for q in range(10) %}{% if q == 2 %}{% continue %}{% endif %}{% if q == 5 %}{% break %}{% endif %}{{ q }}{% endfor %}
{% for q in [1] %}{% break %}{% else %}else{% endfor %}|{% for q in [1] %}{% continue %}{% else %}else{% endfor %}|{% for q in [1, 2] %}{% if q == 2 %}{% break %}{% endif %}{% else %}else{% endfor %}
{% for q in ll recursive %}({{ loop.depth }}{% if q is iterable %}{{ loop(q) }}{% else %}{{ q }}{% endif %}){% endfor %}
{% for q in l %}{{ loop(l) }}{% endfor %}
{% for q in l %}{% for r in ls %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}
{% set q = 1 %}{% for r in l %}{{ q }}{% set q = q + 1 %}{{ q }}{% endfor %}{{ q }}
{% set q = 1 %}{% if t %}{% set q = 2 %}{% endif %}{{ q }}{% if f %}{% set q = 3 %}{% endif %}{{ q }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set a, b = b, a %}{{ a }}{{ b }}{% set (c, g) = 'xy' %}{{ c }}{{ g }}
{% set ns = namespace(a=1, b='x') %}{{ ns.a }}{% set ns.a = ns.a + 1 %}{{ ns.a }}{% set ns.c = [] %}{{ ns.c }}{{ ns.nope is defined }}{{ ns['a'] }}{{ ns }}
{% set ns = namespace({'q': 1}, r=2) %}{% for k in l %}{% set ns.q = ns.q + k %}{% endfor %}{{ ns.q }}{{ ns.r }}
{% set d.a = 1 %}
{% set q %}abc{{ s }}{% endset %}{{ q }}{{ q | length }}{% set q | upper %}abc{{ i }}{% endset %}{{ q }}{% set q | replace('b', 'x') | upper %}abc{% endset %}{{ q }}
{% set q %}{% set inner = 1 %}x{% endset %}{{ inner is defined }}
{% filter upper %}abc{{ s }}{% endfilter %}{% filter replace('a', 'b') | upper %}banana{% endfilter %}
{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}{% with %}{% set z9 = 1 %}{{ z9 }}{% endwith %}{{ z9 is defined }}
{% with a = 1, b = a %}{{ b is defined }}{% endwith %}
{% macro m(a, b=2, c=a) %}[{{ a }},{{ b }},{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(b=5, a=4) }}{{ m() }}{{ m(1, c=9) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, z=2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}
{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, k=4) }}{{ m() }}
{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}body{{ s }}{% endcall %}
{% macro m(x) %}<{{ caller(x, 2) }}>{% endmacro %}{% call(a, b=3, c=4) m(1) %}{{ a }}{{ b }}{{ c }}{% endcall %}
{% macro m() %}{{ caller is defined }}{% if caller %}{{ caller() }}{% endif %}{% endmacro %}{{ m() }}{% call m() %}x{% endcall %}
{% macro fact(k) %}{% if k < 2 %}1{% else %}{{ k }}*{{ fact(k - 1) }}{% endif %}{% endmacro %}{{ fact(5) }}
{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}late{% endmacro %}{{ a() }}
{% set q = 1 %}{% macro m() %}{{ q }}{% endmacro %}{% set q = 2 %}{{ m() }}
{% for q in l %}{% macro m() %}{{ q }}{% endmacro %}{{ m() }}{% endfor %}
{% macro m(x) %}{{ x }}{% endmacro %}{{ m }}{{ m is callable }}{{ m('a') | upper }}{{ m.name }}
{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'a': 1, 'b': 2}) }}{{ m(1, *[2]) }}
{% generation %}gen{{ s }}{% set q = 1 %}{% endgeneration %}{{ q is defined }}
{% block b1 %}block{{ s }}{% endblock %}{% block b2 scoped %}{% endblock b2 %}
{% print 1, 2 %}{% print s %}
{% if 0 %}a{% elif '' %}b{% elif [] %}c{% elif {} %}d{% elif none %}e{% else %}f{% endif %}
{% if l | selectattr('x') %}generators are true{% endif %}
{{ range(5) }}{{ range(2, 9, 3) | list }}{{ range(5, 0, -2) | list }}{{ range(3)[1] }}{{ range(10)[2:5] }}{{ range(5) | length }}{{ range(0) | list }}
{{ range(100001) }}
{{ range(0, 5, 0) }}
{{ dict(a=1, b=2) }}{{ dict([('x', 1)]) }}{{ dict({'q': 1}, z=2) }}
{{ d.items() }}{{ d.keys() }}{{ d.values() | list }}{{ d.items() | length }}{{ 'a' in d.keys() }}{{ d.items() | list | first }}
{{ d | items | list }}{{ nope | items | list }}
{{ l | items }}{{ l | items | list }}
{{ l | join(',') }}{{ ls | join }}{{ mixed | join('-') }}{{ ld | join(',', attribute='v') }}{{ 'abc' | join('.') }}{{ d | join }}
{{ l | sort }}{{ ls | sort }}{{ ls | sort(case_sensitive=true) }}{{ l | sort(reverse=true) }}{{ ld | sort(attribute='v') | map(attribute='v') | list }}{{ ld | sort(attribute='o.k,v') }}
{{ ld[:2] | sort(attribute='o.k,v') }}
{{ mixed | sort }}
{{ l | first }}{{ l | last }}{{ s | first }}{{ s | last }}{{ le | first is defined }}{{ le | last is defined }}{{ d | first }}{{ d | last }}{{ range(4) | last }}
{{ l | min }}{{ l | max }}{{ ls | min }}{{ ls | max }}{{ le | min is defined }}{{ ld | max(attribute='v') }}{{ ls | max(case_sensitive=true) }}
{{ l | sum }}{{ ld | sum(attribute='v') }}{{ l | sum(start=10) }}{{ ll | sum(start=[]) }}{{ le | sum }}
{{ ls | sum }}
{{ l | reverse | list }}{{ s | reverse }}{{ l | reverse }}{{ nope | reverse }}
{{ ls | unique | list }}{{ ls | unique(case_sensitive=true) | list }}{{ [1, 1.0, true, '1'] | unique | list }}{{ ld | unique(attribute='v') | list | length }}
{{ ls | map('upper') | list }}{{ ld | map(attribute='n') | list }}{{ ld | map(attribute='n', default='?') | list }}{{ ld | map(attribute='o.k') | list }}{{ ls | map('replace', 'a', 'z') | join }}
{{ ld[:2] | map(attribute='o.k') | list }}{{ [[1, 2], [3, 4]] | map(attribute=0) | list }}{{ [[1, 2]] | map(attribute='1') | list }}{{ [1, 2] | map('string') | map('upper') | list }}
{{ l | map('nosuch') | list }}
{{ l | map }}{{ l | map | list }}
{{ range(9) | select('odd') | list }}{{ range(9) | reject('odd') | list }}{{ mixed | select('string') | list }}{{ mixed | select | list }}{{ range(9) | select('divisibleby', 3) | list }}{{ l | select('in', [1, 2]) | list }}
{{ ld | selectattr('n') | list | length }}{{ ld | selectattr('v', '>', 1) | map(attribute='v') | list }}{{ ld | rejectattr('n', 'defined') | list }}{{ ld | selectattr('n', 'equalto', 'x') | list }}{{ ld | selectattr('v', 'ge', 2) | list | length }}
{{ l | batch(2) | list }}{{ l | batch(2, 'x') | list }}{{ l | slice(2) | list }}{{ l | slice(2, 'x') | list }}{{ le | batch(2) | list }}{{ l | batch(0) | list }}
{{ ld | groupby('v') | list | length }}{% for g, items in ls | groupby(0) %}{{ g }}{{ items }}{% endfor %}{% for k, vs in [{'a': 'x'}, {'a': 'X'}, {'a': 'b'}] | groupby('a') %}{{ k }}:{{ vs | length }} {% endfor %}
{{ d | dictsort }}{{ d | dictsort(true) }}{{ d | dictsort(reverse=true) }}{{ {'x': 2, 'y': 1} | dictsort(by='value') }}{{ {'x': 2, 'y': 1} | dictsort(false, 'value') }}
{{ d | dictsort(by='nope') }}
{{ l | dictsort }}
{{ d | tojson }}{{ mixed | tojson }}{{ u | tojson }}{{ html | tojson }}{{ ctl | tojson }}{{ emoji | tojson }}{{ 1e16 | tojson }}{{ small | tojson }}{{ big | tojson }}
{{ d | tojson(indent=2) }}{{ [] | tojson(indent=2) }}{{ {} | tojson(indent=2) }}{{ [[]] | tojson(indent=1) }}{{ ld | tojson(indent=4) }}{{ l | tojson(indent='ab') }}{{ l | tojson(indent=0) }}{{ l | tojson(indent=-1) }}
{{ d | tojson(separators=(',', ':')) }}{{ d | tojson(sort_keys=true) }}{{ u | tojson(ensure_ascii=true) }}{{ emoji | tojson(true) }}{{ ld | tojson(indent=2, separators=(', ', ' = ')) }}
{{ {1: 2, none: 3, true: 4, 1.5: 5} | tojson }}{{ (1, 2) | tojson }}
{{ {(1, 2): 3} | tojson }}
{{ nope | tojson }}
{{ d.items() | tojson }}
{{ range(3) | tojson }}
{{ {'b': 1, 1: 2} | tojson(sort_keys=true) }}
{{ s | upper }}{{ s | lower }}{{ u | upper }}{{ u | lower }}{{ u | title }}{{ u | capitalize }}{{ 'foo-bar (baz) qux' | title }}{{ 'hELLO' | capitalize }}{{ n | upper }}{{ l | upper }}
{{ w | trim }}|{{ 'xxaxx' | trim('x') }}|{{ n | trim }}|{{ w | trim | length }}
{{ s | replace('l', 'L') }}{{ s | replace('l', 'L', 1) }}{{ 'abc' | replace('', '-') }}{{ 'abc' | replace('', '-', 2) }}{{ 12321 | replace(2, 'x') }}{{ s | replace('l', n) }}
{{ s | length }}{{ u | length }}{{ emoji | length }}{{ d | length }}{{ e | count }}
{{ i | length }}
{{ n | length }}
{{ '42' | int }}{{ '4x' | int }}{{ '4x' | int(9) }}{{ flt | int }}{{ flt | float }}{{ 'ff' | int(base=16) }}{{ '0x1f' | int(0, 16) }}{{ '0b11' | int(base=0) }}{{ 3.9 | int }}{{ -3.9 | int }}{{ n | int }}{{ n | int(5) }}{{ t | int }}{{ 'x' | float }}{{ 'inf' | float }}{{ '1_000' | int }}{{ l | int }}{{ 'nan' | float }}
{{ nope | int }}
{{ 2.5 | round }}{{ 3.5 | round }}{{ 2.675 | round(2) }}{{ 42.55 | round(1, 'floor') }}{{ 42.55 | round(1, 'ceil') }}{{ 5 | round }}{{ 1234 | round(-2) }}{{ 1250 | round(-2) }}{{ 1350 | round(-2) }}{{ -2.5 | round }}{{ 1.005 | round(2) }}{{ 1234.5 | round(-2) }}
{{ s | round }}
{{ -3 | abs }}{{ neg | abs }}{{ -2.5 | abs }}{{ t | abs }}
{{ s | abs }}
{{ i | string }}{{ x | string }}{{ l | string }}{{ n | string }}{{ t | string | upper }}
{{ s | list }}{{ d | list }}{{ range(3) | list }}{{ nope | list }}
{{ n | list }}
{{ n | default('x') }}{{ n | default('x', true) }}{{ e | default('x', boolean=true) }}{{ nope | d(1) }}{{ z | default(5, true) }}{{ nope | default }}
{{ lines | indent }}|{{ lines | indent(2) }}|{{ lines | indent(2, true) }}|{{ lines | indent(2, blank=true) }}|{{ lines | indent('> ') }}|{{ e | indent }}|{{ 'x\n' | indent(first=true) }}|
{{ i | indent }}
{{ s | truncate(8) }}|{{ s | truncate(5, true, '!', 0) }}|{{ 'a b c d e f g h' | truncate(9, leeway=0) }}|{{ s | truncate }}|{{ 'foo bar baz qux' | truncate(11) }}|{{ 'foo bar baz qux' | truncate(11, False, '...', 0) }}
{{ s | truncate(2) }}
{{ s | center(20) }}|{{ s | center(21) }}|{{ 'ab' | center(5) }}|{{ 'abc' | center(6) }}|{{ 'x' | center }}|
{{ html | escape }}{{ html | e }}{{ html | safe }}{{ html | forceescape }}{{ html | safe | escape }}{{ html | e | e }}{{ 1 | e }}
{{ '<' + ('>' | safe) }}{{ ('<' | safe) + '>' }}{{ ('<a>' | safe) ~ '<b>' }}{{ ('<' | safe) | upper + '<' }}{{ ('a' | safe) == 'a' }}{{ ('a,b' | safe).split(',') }}{{ ['<' | safe, '<'] | join('<') }}{{ ('%s' | safe) % '<' }}{{ ('<x>' | safe).replace('x', '<') }}{{ ('<x' | safe)[0] + '<' }}
{{ 'a <b>x</b>  <!-- c --> y' | striptags }}
{{ path | urlencode }}{{ {'a b': 'c/d', 'é': 1} | urlencode }}{{ [('x', 'y z')] | urlencode }}{{ 5 | urlencode }}
{{ 'one two-three_x' | wordcount }}{{ u | wordcount }}{{ e | wordcount }}
{{ 1000 | filesizeformat }}{{ 1 | filesizeformat }}{{ 123 | filesizeformat }}{{ 1536 | filesizeformat(true) }}{{ 123456789 | filesizeformat }}{{ 1e30 | filesizeformat }}{{ '2000' | filesizeformat }}
{{ '%s-%d' | format('a', 3) }}{{ '%(a)s' | format(a=1) }}{{ '%05d|%-5s|%5s|%.2f|%x|%X|%o|%e|%%|%r|%+d|% d|%c|%5.1f|%g' | format(42, 'a', 'b', 3.14159, 255, 255, 8, 12345.678, 'q', 5, 6, 'z', 2.25, 0.0001) }}{{ '%s' % 'x' }}{{ '%s %s' % (1, 2) }}{{ 'no args' % () }}{{ '%*d' | format(5, 42) }}{{ '%#x' % 255 }}{{ '%.3s' % 'abcdef' }}{{ '%05.1f' % 2.25 }}{{ '%s' % none }}
{{ '%d' % 'x' }}
{{ '%s %s' % 'x' }}
{{ '%s' % (1, 2) }}
{{ '%q' % 1 }}
{{ '{} {}'.format(1, 'a') }}{{ '{1} {0}'.format(1, 2) }}{{ '{a} {b!r}'.format(a=1, b='x') }}{{ '{{}}'.format() }}{{ '{0.b} {0[a]}'.format(d) }}{{ '{0[1]}'.format(l) }}
{{ '{}'.format() }}
{{ '{'.format() }}
{{ d | attr('items') is defined }}{{ d | attr('b') is defined }}{{ s | attr('upper') is defined }}
{{ s.upper() }}{{ s.lower() }}{{ s.title() }}{{ u.title() }}{{ s.capitalize() }}{{ u.capitalize() }}{{ s.swapcase() }}{{ u.swapcase() }}{{ u.casefold() }}{{ 'they\'re bill\'s'.title() }}
{{ w.strip() }}|{{ w.lstrip() }}|{{ w.rstrip() }}|{{ s.strip('Hd') }}|{{ 'xyxaxy'.lstrip('xy') }}|{{ 'xyxaxy'.rstrip('xy') }}|{{ s.strip(n) }}|{{ s.strip('') }}
{{ s.split() }}{{ s.split(',') }}{{ s.split('l') }}{{ s.split('l', 1) }}{{ s.split(maxsplit=1) }}{{ w.split() }}{{ ' a  b '.split(' ') }}{{ s.rsplit('l', 1) }}{{ w.rsplit(n, 1) }}{{ w.split(n, 1) }}{{ e.split() }}{{ e.split(',') }}{{ s.split('zz') }}{{ 'a--b--c'.rsplit('--') }}
{{ s.split('') }}
{{ lines.splitlines() }}{{ lines.splitlines(true) }}{{ e.splitlines() }}{{ 'a\u2028b\x0bc\x1cd'.splitlines() }}
{{ s.replace('l', 'L') }}{{ s.replace('l', 'L', 1) }}{{ s.replace('', '.') }}{{ s.replace('o', '') }}
{{ s.replace(1, 2) }}
{{ ','.join(ls) }}{{ ''.join([]) }}{{ '-'.join('abc') }}{{ ','.join(d) }}
{{ ','.join(l) }}
{{ s.startswith('He') }}{{ s.startswith('x') }}{{ s.endswith('ld') }}{{ s.startswith(('x', 'H')) }}{{ s.startswith('l', 2) }}{{ s.endswith('l', 0, 4) }}{{ s.startswith('') }}{{ e.startswith('', 1) }}
{{ s.startswith(1) }}
{{ s.find('l') }}{{ s.find('l', 4) }}{{ s.find('zz') }}{{ s.rfind('l') }}{{ s.find('l', 0, 2) }}{{ s.index('W') }}{{ s.count('l') }}{{ s.count('') }}{{ u.find('ß') }}{{ s.count('l', 3) }}{{ s.find('', 20) }}{{ s.find('o', -5) }}
{{ s.index('zz') }}
{{ s.partition(', ') }}{{ s.rpartition('o') }}{{ s.partition('zz') }}{{ s.rpartition('zz') }}{{ s.removeprefix('Hello') }}{{ s.removesuffix('ld') }}{{ s.removesuffix('') }}
{{ 'ab'.center(5) }}|{{ 'ab'.ljust(5, '*') }}|{{ 'ab'.rjust(5) }}|{{ '-5'.zfill(5) }}|{{ '5'.zfill(3) }}|{{ 'abc'.center(4, 'é') }}|{{ 'a\tb\tcc\td'.expandtabs(4) }}|{{ 'a\tb'.expandtabs() }}
{{ s.isalpha() }}{{ 'abc'.isalpha() }}{{ '12'.isdigit() }}{{ '½'.isnumeric() }}{{ '²'.isdigit() }}{{ '²'.isdecimal() }}{{ 'a1'.isalnum() }}{{ ' '.isspace() }}{{ e.isspace() }}{{ 'A'.isupper() }}{{ 'a'.islower() }}{{ 'Aa Bb'.istitle() }}{{ u.isascii() }}{{ 'a b'.isidentifier() }}{{ 'ab_1'.isidentifier() }}{{ ctl.isprintable() }}{{ s.isprintable() }}
{{ l.index(1) }}{{ l.count(1) }}{{ (1, 2).index(2) }}{{ l.copy() }}{{ d.copy() }}{{ x.is_integer() }}{{ (2.0).is_integer() }}
{{ l.index(99) }}
{{ d.keys() | list }}{{ d.values() | list }}{{ d.get }}
{{ 1 is odd }}{{ 2 is even }}{{ 6 is divisibleby 3 }}{{ 6 is divisibleby(4) }}{{ n is none }}{{ s is string }}{{ i is number }}{{ t is number }}{{ x is float }}{{ i is integer }}{{ t is integer }}{{ t is boolean }}{{ t is true }}{{ f is false }}{{ 1 is true }}{{ d is mapping }}{{ l is sequence }}{{ s is sequence }}{{ d is sequence }}{{ i is sequence }}{{ l is iterable }}{{ i is iterable }}{{ s is iterable }}{{ n is iterable }}{{ nope is iterable }}{{ nope is sequence }}{{ 'abc' is lower }}{{ 'ABC' is upper }}{{ 1 is lower }}{{ 'upper' is filter }}{{ 'x' is filter }}{{ 'odd' is test }}{{ s.upper is callable }}{{ s is callable }}{{ ('a' | safe) is escaped }}
{{ 1 is eq 1 }}{{ 1 is ne 1 }}{{ 1 is lt 2 }}{{ 1 is gt 2 }}{{ 1 is le 1 }}{{ 1 is ge 1 }}{{ 1 is in [1] }}{{ 1 is not in [1] }}{{ 'a' is in 'abc' }}{{ s is not string }}{{ i is equalto 7 }}{{ 1 is == 1 }}
{{ s is eq 'Hello, World' and true }}{{ i is divisibleby 7 or f }}{{ 'x' if i is odd else 'y' }}{{ l is sequence and l is not string }}{{ nope is defined and nope.x }}{{ not nope is defined }}
{{ x is nosuch }}
{{ x | nosuch }}
{% if f %}{{ x | nosuch }}{% endif %}ok{{ 1 if true else x | nosuch }}
{% if f %}{% for q in l %}{{ x | nosuch }}{% endfor %}{% endif %}
{% if t %}{{ x is nosuch }}{% endif %}
{% for q in [] %}{{ x | nosuch }}{% endfor %}
{{ raise_exception('stop ' ~ i) }}
{{ raise_exception(none) }}
{{ strftime_now('%Y-%m-%d %H:%M:%S') }}{{ strftime_now('%d %b %Y|%A|%B|%a|%j|%I%p|%y|%%|%-d|%e|%U|%W|%w|%u|%G-%V|%F %T|%D|%R|%C|%h|%n%t') }}
{{ [1, 2, 3,] }}{{ {'a': 1,} }}{{ (1, 2,) }}{{ dict(a=1,) }}
{{ "a\nb\t\"q\"\\ \x41 \u00e9 \U0001F600 \101 \d" }}{{ 'it\'s' }}
{{ 0x1F }}{{ 0b101 }}{{ 0o17 }}{{ 1_000 }}{{ 1_0.5_0 }}{{ 1e3 }}{{ 1.5e-3 }}{{ 00 }}
{{ 1.e5 }}
{{ s.0 }}{{ l.0 }}{{ l.1 }}{{ d.items()|list|length }}
{# comment #}a{#- strip -#} b {# multi
line #} c
  {# alone #}
x
  {% if t %}
    indented
  {% endif %}
y
  {%+ if t %}kept{% endif +%}
z
  {%- if t -%}
    both
  {%- endif -%}
  end
a  {{- s -}}  b {{+ s }} c
{% raw %}{{ not }} {% parsed %}{# at #}{% endraw %} {%- raw -%}  x  {%- endraw -%}  y
    {% raw %}
  {{ q }}
    {% endraw %}
z
{% set q = {'a': {'b': [1, {'c': 2}]}} %}{{ q.a.b[1].c }}{{ q['a']['b'][0] }}{{ q.a['b'][1]['c'] }}
{{ '}}' }}{{ '%}' }}{{ "{{" }}{{ {'a': {}}['a'] }}{{ {} }}
{{ (s | upper)[:3] }}{{ s | upper | lower | title }}{{ (l | join(','))[::-1] }}{{ -l | first }}{{ -1 | abs }}{{ 2 * 3 | string }}
{{ [] is defined }}{{ [] == () }}{{ {'a': 1} == {'a': 1.0} }}{{ '1' == 1 }}{{ none == false }}{{ [1, [2]] == [1, [2]] }}
{{ a.b.c }}
{{ loop }}{{ loop is defined }}
{% if %}{% endif %}
{% for %}{% endfor %}
{% endif %}
{% if t %}
{{ }}
{{ 1 +
{{ 'abc }}
{{ a b }}
{{ foo(a=1, 2) }}
{{ 1 if }}
{% set %}
{% set 1 = 2 %}
{% unknown %}
{% macro %}{% endmacro %}
{% macro m(a=1, b) %}{% endmacro %}
{% break %}
{% for q in l %}{% endfor %}{% continue %}
{% for loop in l %}{{ loop }}{% endfor %}
{{ (1 }}
{{ [1) }}
{{ ) }}
{{ a | }}
{{ a is }}
{{ a.b. }}
{{ $ }}
{{ a ! b }}
{# open
{% raw %} open
{{ 1 is odd is even }}
{{ l | tojson | length }}{{ l[0:2] | tojson }}{{ (l + [4]) | tojson }}{{ l[n:n:n] }}{{ l[true] }}{{ l[1.0] is defined }}{{ l['0'] is defined }}
{{ s[n] is defined }}{{ d[n] is defined }}{{ d[l] is defined }}{{ {none: 1}[none] }}{{ {1: 'a'}[true] }}{{ {1: 'a'}[1.0] }}
{{ s['upper']() }}{{ d['get']('b') }}{{ d['values']() | list }}{{ l['count'](1) }}
{{ l[::0] }}
{{ 'a' 'b' ~ 'c' }}{{ 'x' ~ nope ~ 'y' }}{{ [nope] }}{{ {'a': nope} }}
{{ 9223372036854775807 + 1 }}{{ big }}{{ big + 1 }}{{ -big }}{{ big // 10 }}{{ big % 7 }}{{ big / 3 }}{{ big == 12345678901234567890 }}
{{ 1e308 * 10 }}{{ -1e308 * 10 }}{{ 5 // 0.3 }}{{ 5 % -3 }}{{ -5 % 3.5 }}{{ 0.0 }}{{ -0.0 }}{{ 3 % 2.0 }}
{{ 1.0 // 0 }}
{{ 5 % 0 }}
{{ 'x' % 0 }}
{{ [1, 2] | join(d='-') }}{{ 'a b' | replace(old='a', new='b') }}{{ s | truncate(length=5, end='') }}{{ l | sort(attribute=n) }}
{{ s | upper('x') }}
{{ s | replace('a') }}
{{ s | trim(chars='Hd') }}{{ s | nosuch.filter }}
{%- set x1 = 'a' -%} {%- set x2 = 'b' %} {{ x1 ~ x2 }}
{% set q = [] %}{% set q = q + [1] %}{% set q = q + [2] %}{{ q }}{% set o = '' %}{% set o = o + 'a' %}{% set p = o + 'b' %}{% set o = o + 'c' %}{{ o }}{{ p }}
{% set ns = namespace(o='') %}{% for c in s %}{% set ns.o = ns.o + c %}{% set keep = ns.o %}{% endfor %}{{ ns.o }}
""".strip("\n").split("\n")

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
    "x {% if t %}\n  y {% endif %} z\n", "\u00a0{% if t %}y{% endif %}", "{{ s }}  {% if t %}\nq{% endif %}",
    "{%- for q in l %}\n\n  {{- q }}\n\n{%- endfor -%}\n\n x",
    "{% set q = {\n  'a': 1,\n  'b': [1, 2],\n} %}{{ q }}", "{% if t -%}\n\n  x\n\n  {%- endif %}\n\ny",
]

# No literals: jinja2 folds constants, and folded subscripts forgive what running ones do not.
ATOMS = ["s", "u", "e", "w", "n", "t", "f", "i", "z", "neg", "x", "l", "ls", "le", "ll", "d", "de",
         "ld", "mixed", "lines", "html", "quote", "both", "num", "flt", "nope", "big", "emoji",
         "small", "path", "range(i)", "(i, s)", "[l, n]", "{'k': s, 'n': l}"]
FILTERS = ["upper", "lower", "title", "capitalize", "trim", "length", "list", "first", "last", "sort",
           "reverse", "join(', ')", "join", "tojson", "tojson(indent=2)", "string", "int", "float",
           "abs", "round", "default('dflt')", "default('dflt', true)", "unique", "sum", "min", "max",
           "replace('a', 'b')", "replace('l', '')", "items", "dictsort", "map('string')",
           "map('upper')", "map(attribute='v')", "map(attribute=0)", "select", "reject",
           "select('string')", "select('defined')", "selectattr('v')", "rejectattr('n', 'none')",
           "batch(2)", "slice(2)", "indent", "indent(2, true)", "truncate(6)", "truncate(6, true, '')",
           "center(9)", "escape", "safe", "e", "wordcount", "urlencode", "groupby('v')",
           "list | first", "list | tojson", "sort(reverse=true)", "tojson(sort_keys=true)",
           "tojson(ensure_ascii=true)", "tojson(separators=(',', ':'))", "format(1)", "round(1)",
           "round(0, 'ceil')", "int(base=16)", "trim('Hab')", "attr('upper')", "filesizeformat"]
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
