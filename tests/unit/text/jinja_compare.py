#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares chat templates with Jinja2 itself, set up as transformers sets it up.

    jinja_compare.py TEXT_RENDER shared FOLDER       every template of FOLDER over many conversations
    jinja_compare.py TEXT_RENDER random COUNT SEED   random snippets
    jinja_compare.py TEXT_RENDER features            one snippet per feature

Texts must be equal, and where Jinja2 fails Lutra must fail too.  Exit code 77 means skipped.
"""
import datetime
import glob
import json
import os
import random
import subprocess
import sys

try:
    import jinja2.ext
    import jinja2.sandbox
except ImportError:
    print("skipped: python3-jinja2 is not installed")
    sys.exit(77)

NOW = 1722074400


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def strftime_now(fmt):
        return datetime.datetime.fromtimestamp(NOW).strftime(fmt)

    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                       extensions=[jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


class Judge:
    def __init__(self, program):
        self.env, self.source, self.compiled = environment(), None, None
        self.child = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
        self.n_same = self.n_error = self.n_wrong = 0

    def lutra(self, template, variables):
        request = {"template": template, "json": json.dumps(variables, ensure_ascii=False), "now": NOW}
        self.child.stdin.write(json.dumps(request) + "\n")
        self.child.stdin.flush()
        return json.loads(self.child.stdout.readline())

    def jinja(self, template, variables):
        try:
            if self.source != template:
                self.compiled, self.source = None, template
                self.compiled = self.env.from_string(template)
            return {"ok": self.compiled.render(**variables)}
        except Exception as e:  # whatever Python raises is a failure to render
            return {"error": f"{type(e).__name__}: {e}"}

    def compare(self, name, template, variables, may_refuse=False):
        want, have = self.jinja(template, variables), self.lutra(template, variables)
        if "error" in want:
            good = "error" in have
            self.n_error += good
        else:
            good = want == have or (may_refuse and "not supported" in have.get("error", ""))
            self.n_same += good
        if not good:
            self.n_wrong += 1
            if self.n_wrong <= 20:
                print(f"--- {name}\n{template if len(template) < 400 else ''}\n{json.dumps(variables)[:600]}")
                print(f"jinja2: {want}\nlutra:  {have}")

    def verdict(self):
        print(f"{self.n_same} texts equal, {self.n_error} failures on both sides, {self.n_wrong} different")
        sys.exit(1 if self.n_wrong or not self.n_same else 0)


TOOL = {"type": "function", "function": {
    "name": "get_weather", "description": "Wetter für eine Stadt: <b>& \"Grad\"</b> 🌦",
    "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "enum": ["Zürich", "東京", "a'b"]},
        "days": {"type": "integer", "minimum": 1, "default": 3, "x": [1.5, -0.0, 1e22, None, True, [], {}]}},
        "required": ["city"]}}}
TOOL2 = {"type": "function", "function": {"name": "f", "return": {"type": "null"}, "description": "", "parameters": {}}}


def call(name, arguments, id="abcdefghi"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def conversations():
    user, bot = (lambda t: {"role": "user", "content": t}), (lambda t: {"role": "assistant", "content": t})
    system = {"role": "system", "content": "  You are 🦦.\n\nBe <kind> & \"brief\". "}
    calls = {"role": "assistant", "content": "", "tool_calls": [call("get_weather", {"city": "Zürich", "days": 2})]}
    none = {"role": "assistant", "content": None, "tool_calls": [call("f", "{\"a\": 1}")]}
    two = {"role": "assistant", "content": "let me see", "tool_calls": [
        call("get_weather", {"city": "東京"}), call("f", {"n": [1, 2.5, {"deep": {"er": None}}]}, "123456789")]}
    flat = {"role": "assistant", "content": "", "tool_calls": [{"name": "f", "arguments": {"x": "y"}}]}
    result = {"role": "tool", "content": "{\"t\": 21.5}", "tool_call_id": "abcdefghi", "name": "get_weather"}
    nested = {"role": "tool", "content": {"content": [1, "zwei", 3.0]}, "tool_call_id": "abcdefghi"}
    think = bot("<think>\nlong thought\n</think>\n\nthe answer")
    given = {"role": "assistant", "content": "answer", "reasoning_content": "\nreasons\n"}
    return [
        [user("hi")], [system, user("hi")], [user("a"), bot("b"), user("c")], [system, user("  a "), bot(" b\n"), user("c\n")],
        [system], [], [bot("first")], [user("x"), user("y")], [user("ok"), think, user("and?")], [user("ok"), think],
        [user("ok"), given, user("more"), given], [user("w?"), calls, result], [system, user("w?"), calls, result, bot("21.5"), user("thanks")],
        [user("w?"), two, result, result, bot("done")], [user("w?"), none, result, bot("done"), user("x")],
        [user("w?"), calls, nested, bot("ok")], [user("w?"), flat, result], [user("<tool_response>x</tool_response>"), bot("y")],
        [user("日本語 ÄÖÜ 🦙 \u2028 \\n 'quotes' \"double\"")], [user("{{ 7 * 7 }} {% raw %}")], [user("")],
        [{"role": "ipython", "content": {"a": 1}}], [{"role": "other", "content": "x"}], [{"role": "user"}],
        [user("q"), {"role": "assistant", "content": "hm", "tool_calls": None}, user("z")],
        [user("q"), {"role": "assistant", "content": "hm", "tool_calls": []}, user("z")],
        [user("a")] + [bot("b"), user("c")] * 20,
    ]


def variable_sets(messages):
    for prompt in ({"add_generation_prompt": True}, {"add_generation_prompt": False}, {}):
        for tools in ({"tools": None}, {}, {"tools": [TOOL]}, {"tools": [TOOL, TOOL2], "builtin_tools": ["code_interpreter", "f"]}):
            for more in ({}, {"enable_thinking": False}, {"enable_thinking": True, "tools_in_user_message": False},
                         {"date_string": "1 Jan 2030", "documents": None}):
                yield {"messages": messages, "bos_token": "<s>", "eos_token": "</s>", **prompt, **tools, **more}


def shared(judge, folder):
    templates = sorted(glob.glob(os.path.join(folder, "chat-templates", "*.jinja")))
    if not templates:
        print(f"skipped: {folder}/chat-templates is missing")
        sys.exit(77)
    for path in templates:
        source = open(path, encoding="utf-8", newline="").read()
        for i, messages in enumerate(conversations()):
            for variables in variable_sets(messages):
                judge.compare(f"{os.path.basename(path)}, conversation {i}", source, variables)


VARIABLES = {"a": 3, "b": -2, "f": 2.5, "s": "Hello wörld\n 'x' ", "t": "  <a&b>\t", "n": None, "yes": True, "no": False,
             "l": [3, 1, 2], "w": ["b", "A", "c", "a"], "d": {"k": 1, "items": "own", "z": [1, {"y": "ü"}]}, "e": [], "empty": "",
             "m": [{"role": "user", "n": 2, "o": {"p": 1}}, {"role": "bot", "n": 1}, {"role": "user", "n": 3}]}


class Snippets:
    """A grammar of template snippets, mostly well typed."""

    def __init__(self, seed):
        self.r = random.Random(seed)

    def pick(self, *options):
        option = self.r.choice(options)
        return option() if callable(option) else option

    def number(self, depth):
        if depth <= 0:
            return self.pick("a", "b", "f", "0", "1", "7", "-3", "2.5", "1e3", "yes", "l[0]", "d.k", "s|length")
        x, y = lambda: self.number(depth - 1), lambda: self.number(depth - 1)
        return self.pick(lambda: f"{x()} {self.pick('+', '-', '*', '/', '//', '%')} {y()}", lambda: f"({x()})", lambda: f"-{x()}",
                         lambda: f"{x()}|abs", lambda: f"{x()}|int", lambda: f"{x()}|float", lambda: f"{self.sequence(depth - 1)}|length",
                         lambda: f"({self.pick('l', '[1,5]')}|{self.pick('min', 'max', 'sum', 'first', 'last')})",
                         lambda: f"{x()} if {self.boolean(depth - 1)} else {y()}", lambda: f"{x()} ** 2",
                         lambda: f"{self.string(depth - 1)}.count('l')", lambda: f"{self.string(depth - 1)}.find('o')")

    def string(self, depth):
        if depth <= 0:
            return self.pick("s", "t", "'lit'", '"a\\n\\u00e9\'"', "empty", "d['items']", "w[1]", "'a' 'b'", "s[1:4]", "s[::-1]", "t[-3:]")
        x = lambda: self.string(depth - 1)
        return self.pick(lambda: f"{x()} + {x()}", lambda: f"{x()} ~ {self.any(depth - 1)} ~ {x()}", lambda: f"({x()})",
                         lambda: f"{x()}|{self.pick('trim', 'upper', 'lower', 'title', 'capitalize', 'string', 'safe', 'reverse', 'e')}",
                         lambda: f"({x()}).{self.pick('strip', 'lstrip', 'rstrip', 'upper', 'lower', 'title', 'capitalize')}()",
                         lambda: f"({x()}).{self.pick('strip', 'lstrip', 'rstrip')}('lH ')", lambda: f"{x()}|replace('l', {x()})",
                         lambda: f"({x()}).replace('o', '0')", lambda: f"{self.any(depth - 1)}|tojson",
                         lambda: f"{self.any(depth - 1)}|tojson(indent={self.pick('2', '0', 'none')})",
                         lambda: f"{self.sequence(depth - 1)}|join({self.pick(repr(', '), repr(''), 's')})", lambda: f"{x()} * 2",
                         lambda: f"{self.any(depth - 1)}|string", lambda: f"{x()}|indent({self.pick('2', '4, true', 'blank=true')})",
                         lambda: f"({x()})[{self.slice()}]", lambda: f"{x()}|default('dflt')", lambda: f"({x()}).join(w)")

    def slice(self):
        part = lambda: self.pick("", "", "0", "1", "-1", "2", "-4", "9", "-9")
        return f"{part()}:{part()}" + self.pick("", f":{self.pick('1', '2', '-1', '-2', '')}")

    def sequence(self, depth):
        if depth <= 0:
            return self.pick("l", "w", "e", "[1, 'x', none]", "m", "range(3)", "(1, 2)", "d|list", "range(5, 0, -2)", "s|list")
        x = lambda: self.sequence(depth - 1)
        return self.pick(lambda: f"[{self.any(depth - 1)}, {self.any(depth - 1)}]", lambda: f"({x()})[{self.slice()}]", lambda: f"{x()}|list",
                         lambda: f"{x()}|reverse|list", lambda: "w|sort", lambda: "l|sort(reverse=true)", lambda: "m|sort(attribute='n')",
                         lambda: "w|map('upper')|list", lambda: "m|map(attribute='role')|list", lambda: "m|map(attribute='o.p', default=0)|list",
                         lambda: f"m|selectattr('role', 'equalto', 'user')|list", lambda: "m|rejectattr('o')|list", lambda: "m|selectattr('o', 'defined')|list",
                         lambda: "l|select('odd')|list", lambda: "l|reject('gt', 1)|list", lambda: "d|items|list", lambda: "d.items()|list",
                         lambda: "d|dictsort", lambda: f"({self.string(depth - 1)}).split({self.pick('', repr('l'), repr(' '), 'none, 1')})",
                         lambda: f"({self.string(depth - 1)}).rsplit('l', 1)", lambda: "w|unique|list", lambda: "l + [4]", lambda: "[0] * 3",
                         lambda: "d.keys()|list", lambda: "d.values()|list", lambda: "l|batch(2)|list", lambda: "s.splitlines()")

    def boolean(self, depth):
        if depth <= 0:
            return self.pick("yes", "no", "a", "n", "empty", "e", "missing", "1 < 2", "a == 3", "'a' in w", "a is odd", "m")
        x = lambda: self.boolean(depth - 1)
        test = self.pick("defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "number", "integer", "float",
                         "boolean", "true", "false", "sameas(none)", "equalto(3)", "in w", "callable", "eq 3", "ne('x')")
        return self.pick(lambda: f"{x()} and {x()}", lambda: f"{x()} or {x()}", lambda: f"not {x()}", lambda: f"({x()})",
                         lambda: f"({self.any(depth - 1)}) is {self.pick('', 'not ')}{test}", lambda: f"missing is {test}",
                         lambda: f"{self.number(depth - 1)} {self.pick('<', '<=', '==', '!=', '>', '>=')} {self.number(depth - 1)}",
                         lambda: f"{self.string(depth - 1)} {self.pick('<', '==', '!=', 'in', 'not in')} {self.string(depth - 1)}",
                         lambda: f"{self.any(depth - 1)} {self.pick('in', 'not in')} {self.sequence(depth - 1)}",
                         lambda: f"{self.any(depth - 1)} == {self.any(depth - 1)}", lambda: "1 < a <= 3",
                         lambda: f"({self.string(depth - 1)}).{self.pick('startswith', 'endswith')}({self.string(0)})")

    def any(self, depth):
        return self.pick(lambda: self.number(depth), lambda: self.string(depth), lambda: self.sequence(depth), lambda: self.boolean(depth),
                         "d", "d.z", "n", "{'q': 1, 2: [3.0]}", "m[0].o", "dict(x=1)", "missing", "d.missing", "m[-1]['role']", "d.get('k', 0)")

    def tag(self, text):
        return "{%" + self.pick("", "", "-", "+") + f" {text} " + self.pick("", "", "-", "+") + "%}"

    def text(self):
        return "".join(self.r.choice(["x", " ", "\n", "  ", "\n\n", "\t", "ö", "\r\n", "}", "{ ", "#", "%"]) for _ in range(self.r.randrange(5)))

    def put(self, depth):
        return "{{" + self.pick("", "", "-") + f" {self.any(depth)} " + self.pick("", "", "-") + "}}"

    def body(self, depth):
        return "".join(self.statement(depth - 1) for _ in range(self.r.randrange(1, 4))) if depth > 0 else self.text() + self.put(1)

    def statement(self, depth):
        body, t = lambda: self.body(depth), self.tag
        return self.text() + self.pick(
            lambda: self.put(2), lambda: self.put(2), lambda: self.put(3),
            lambda: "{#" + self.pick("", "-", "+") + " note\n " + self.pick("", "-", "+") + "#}",
            lambda: t(f"if {self.boolean(2)}") + body() + self.pick("", lambda: t(f"elif {self.boolean(1)}") + body()) + self.pick("", lambda: t("else") + body()) + t("endif"),
            lambda: t(f"for v in {self.sequence(2)}{self.pick('', '', ' if v')}") + "{{ loop.index }}{{ v }}" + self.text() + self.pick("", "{{ loop.last }}{{ loop.length }}{{ loop.revindex0 }}", "{% if loop.index > 1 %}{% break %}{% endif %}", "{% if loop.first %}{% continue %}{% endif %}", "{{ loop.previtem }}{{ loop.nextitem is defined }}", "{{ loop.cycle('p', 'q') }}{{ loop.changed(v) }}") + body() + self.pick("", lambda: t("else") + "none") + t("endfor"),
            lambda: t("for k, v in d.items()") + "{{ k }}={{ v }}" + t("endfor"),
            lambda: t(f"set x = {self.any(2)}") + "{{ x }}", lambda: t(f"set x{self.pick('', ' | upper', ' | trim | title')}") + body() + t("endset") + "[{{ x }}]",
            lambda: t("set ns = namespace(c=0, s='')") + "{% for i in l %}{% set ns.c = ns.c + i %}{% set ns.s = ns.s ~ i %}{% set lost = i %}{% endfor %}{{ ns.c }}{{ ns.s }}{{ lost is defined }}",
            lambda: t("macro g(p, q=2)") + "<{{ p }}|{{ q }}|{{ varargs }}{{ kwargs }}>" + body() + t("endmacro") + "{{ g(1) }}{{ g(p=2, q=a) }}{{ g(1, 2, 3) }}{{ g(1, z=l) }}{{ g() }}",
            lambda: t("macro h(p)") + "({{ caller(p) }})" + t("endmacro") + "{% call(u) h(s) %}" + "{{ u }}" + body() + "{% endcall %}",
            lambda: t("filter upper") + body() + t("endfilter"), lambda: t(f"with y = {self.any(1)}, z = 1") + "{{ y }}{{ z }}" + t("endwith") + "{{ z is defined }}",
            lambda: t("raw") + "{{ x }} {% if %}" + self.text() + t("endraw").replace("+%}", "%}"), lambda: t("set p, q = l[0], w") + "{{ p }}{{ q }}")


FEATURES = [
    "{{ 1.0 }} {{ 1e16 }} {{ 1e15 }} {{ 0.0001 }} {{ 0.00001 }} {{ 123456789.125 }} {{ 5e-324 }} {{ 1.1 * 3 }} {{ 100.0|string }}",
    "{{ [1, 'a', \"it's\", 'q\"', none, true, 1.5, (1,), (), {}, {'a': [1]}] }} {{ 'tab\\there' }} {{ ['\\n\\x00\\u200b\\xadü🦙'] }}",
    "{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % -3 }} {{ -7 % 3 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 7 / 2 }} {{ 7.5 // 2 }} {{ true + 1 }} {{ -7.5 % 2 }}",
    "{{ 'abc'[0] }}{{ 'abc'[-1] }}{{ 'äöü'[1:] }}{{ 'abcdef'[::2] }}{{ 'abcdef'[4:1:-1] }}{{ [1,2,3][::-1] }}{{ (1,2,3)[:2] }}{{ 'abc'[9] }}|",
    "{{ 1 is odd }} {{ 2 is even }} {{ 4 is divisibleby 2 }} {{ 'x' is in ['x'] }} {{ 'A' is upper }} {{ 'a' is lower }} {{ [] is sequence }} {{ {} is sequence }}",
    "{{ {'a': 1}.items() is iterable }} {{ l|map('string') is sequence }} {{ missing is iterable }} {{ 3 is iterable }} {{ l is sameas l }} {{ 1 is sameas 1.0 }}",
    "{% for i in l %}{% continue %}{% else %}none{{ loop is defined }}{{ i is defined }}{% endfor %}", "{% for i in l %}{% break %}{% else %}none{% endfor %}",
    "{{ missing is defined in w }}", "{{ 1 is defined is defined }}", "{{ m|map(attribute='o.p', default=0)|list }}", "{{ m|map(attribute='o.p')|list }}", "{{ d.items is defined }}", "{{ d['items'] }} {{ d.k }} {{ d['nope'] is defined }} {{ d.get('nope') }} {{ d.get('nope', 4) }}",
    "{{ missing }}|{{ missing is defined }}|{{ missing|default('d') }}|{{ ''|default('d', true) }}|{{ missing ~ 'x' }}|{{ missing == other }}",
    "{{ missing.x }}", "{{ missing + 1 }}", "{{ 'a' + 1 }}", "{{ 1 / 0 }}", "{{ none + 1 }}", "{{ none.x }}|", "{{ l.append(1) }}", "{{ d.update({}) }}",
    "{{ l.append is defined }} {{ d.pop is defined }} {{ s.__class__ is defined }}", "{{ raise_exception('stop: ' ~ a) }}", "{{ strftime_now('%d %b %Y') }}",
    "{{ [1, 2]|tojson }} {{ d|tojson }} {{ d|tojson(indent=2) }} {{ 'ü<>&\\'\"/\\x7f'|tojson }} {{ 'ü🦙\\x7f'|tojson(ensure_ascii=true) }}",
    "{{ d|tojson(separators=(',', ':')) }} {{ {'b': 1, 'a': 2}|tojson(sort_keys=true) }} {{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }} {{ (1, 2)|tojson }}",
    "{{ range(3)|tojson }}", "{{ missing|tojson }}", "{{ [[], {}, [[]]]|tojson(indent=1) }} {{ [1]|tojson(indent='--') }}",
    "{{ range(10)|list }} {{ range(2, 5)|list }} {{ range(5, 2, -1)|list }} {{ range(3) }} {{ range(1, 9, 3) }} {{ range(200000) }}",
    "{% for i in range(3) %}{{ loop.index0 }}{{ loop.revindex }}{{ loop.first }}{{ loop.depth }},{% endfor %}",
    "{% for i in [] %}x{% else %}empty{% endfor %}{% for i in missing %}x{% else %}undef{% endfor %}{% for c in 'äb' %}{{ c }}.{% endfor %}",
    "{% for a, (b, c) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}{% for x in {'p': 1} %}{{ x }}{% endfor %}",
    "{% for i in l if i > 1 %}{{ i }}{{ loop.length }}{% endfor %}", "{% for i in none %}{% endfor %}", "{% for a, b in [[1]] %}{% endfor %}",
    "{% set x = 1 %}{% for i in l %}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}{% if true %}{% set x = 9 %}{% endif %}{{ x }}",
    "{% set ns = namespace(a=1) %}{% set ns.b = 2 %}{{ ns.a + ns.b }}{{ ns.c is defined }}{{ ns['a'] }}", "{% set d.x = 1 %}", "{% set q.x = 1 %}",
    "{% macro m(x, y='d', z=x) %}{{ x }}{{ y }}{{ z }}{% endmacro %}{{ m(1) }}{{ m(1, z=3) }}{{ m(y=2, x=1) }}{{ m.name }}", "{% macro m() %}{% endmacro %}{{ m(1) }}",
    "{% macro m(n) %}{{ n }}{% if n > 0 %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(5) }}", "{% macro m() %}{{ v }}{% endmacro %}{% set v = 3 %}{{ m() }}",
    "{{ 1 if false }}|{{ 1 if true else 2 }}|{{ (1 if no else 2) if yes else 3 }}|{{ 'a' if no else 'b' if no else 'c' }}",
    "{{ not no and yes or n }}|{{ 1 < 2 < 3 }}|{{ 3 > 2 > 2 }}|{{ n or 'x' }}|{{ 0 and 1 }}|{{ 'a' not in 'bc' }}|{{ not 1 in [1] }}",
    "{{ a~b }}{{ 1 ~ 2 + 3 }}|{{ 2 + 3 ~ 1 }}|{{ -2|abs }}|{{ 2 * 3 ~ 4 * 5 }}|{{ -2 ** 2 }}|{{ 2 ** 3 ** 2 }}",
    "{{ 'they\\'re bill-ed (and) x'|title }}|{{ 'they\\'re x1y'.title() }}|{{ 'ABC dEF'|capitalize }}|{{ 'éa'|upper }}|{{ 'ÀB'|lower }}",
    "{{ ' a b  c '.split() }}{{ 'a,b,,c'.split(',') }}{{ 'a,b,c'.split(',', 1) }}{{ 'a b c'.rsplit(none, 1) }}{{ ''.split() }}{{ ''.split(',') }}",
    "{{ 'aXbX'.replace('X', '--') }}{{ 'aaa'.replace('a', 'b', 2) }}{{ 'ab'.replace('', '-') }}{{ 'ab'|replace('b', 1) }}",
    "{{ '  x '.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'abc'.lstrip('ab') }}|{{ 'abc'.rstrip('cb') }}|{{ '\\u3000x\\u00a0'|trim }}|{{ 'xaxx'|trim('x') }}",
    "{{ 'abc'.startswith('ab') }}{{ 'abc'.startswith(('x', 'a')) }}{{ 'abc'.endswith('bc') }}{{ 'abc'.find('z') }}{{ 'äbc'.find('c') }}{{ 'abab'.rfind('b') }}",
    "{{ '12'|int + 1 }}{{ '1.9'|int }}{{ 'x'|int }}{{ 'x'|int(5) }}{{ 2.9|int }}{{ none|int }}{{ '0x1f'|int(0, 16) }}{{ ' 4_2 '|int }}{{ '1e3'|float }}{{ 'x'|float }}{{ true|int }}",
    "{{ w|sort }}{{ w|sort(case_sensitive=true) }}{{ l|sort(reverse=true) }}{{ m|sort(attribute='n')|map(attribute='n')|list }}{{ w|unique|list }}{{ ['a','A']|unique(true)|list }}",
    "{{ d|dictsort }}{{ {'b': 1, 'A': 3, 'c': 2}|dictsort(by='value', reverse=true) }}{{ l|min }}{{ l|max }}{{ l|sum }}{{ m|sum(attribute='n') }}{{ []|max }}|",
    "{{ l|first }}{{ l|last }}{{ []|first }}{{ 'abc'|first }}{{ 'abc'|last }}{{ l|reverse|list }}{{ 'abc'|reverse }}{{ l|join }}{{ l|join('-') }}{{ m|join(',', attribute='role') }}",
    "{{ l|map('string')|join('+') }}{{ m|map(attribute='role')|list }}{{ m|map(attribute='q', default='?')|list }}{{ w|map('replace', 'a', 'z')|list }}{{ w|select('in', ['a'])|list }}",
    "{{ l|select|list }}{{ [0, 1]|select|list }}{{ [0, 1]|reject|list }}{{ m|selectattr('role', 'eq', 'bot')|map(attribute='n')|first }}", "{{ l|select('nope')|list }}",
    "{{ 'a\\nb\\n\\nc'|indent }}|{{ 'a\\nb'|indent(2, true) }}|{{ 'a\\n\\nb'|indent(1, blank=true) }}|{{ 'a\\nb'|indent('>') }}", "{{ l[a] is defined }}{{ l['x'] is defined }}{{ l.0 }}{{ m[0].o.p }}",
    "  {% if true %}\n  x\n  {% endif %}\n y", "a  {%- if true -%}  b  {%- endif -%}  c", "a\n  {%+ if true +%}\n b {% endif %}\n", "\n\n{# c #}\n\n x {#- d -#} y\n", "x\n\n",
    "{% raw %}{{ a }}{% endraw %}\n{%- raw -%} {% x {%- endraw %} z", "  {% raw %} a {% endraw %}\n b", "{{ 'a' }}\n{{- 'b' -}}\n c", "\t{%- set x = 1 %}\n {{x}}", "{{ '}}' }}{{ {'a': {'b': 1}}['a']['b'] }}{{ \"%}\" }}",
    "{% set x %}a{{ 1 }}{% endset %}{{ x }}{% set y | upper | replace('A', 'b') %}xa{% endset %}{{ y }}", "{% filter upper | trim %} a {% endfilter %}", "{% with a = 1 %}{{ a }}{% set q = 2 %}{% endwith %}{{ a }}{{ q is defined }}",
    "{% if %}", "{% for x %}", "{{ }}", "{{ 1 + }}", "{% endif %}", "{% if true %}", "{{ 'x }}", "{# x", "{% raw %}", "{% raw %}x", "a {#", "{{", "{%", "{% break %}", "{{ (1 }}", "{% set 1 = 2 %}", "{{ a b }}", "{% nope %}", "{{ 1 is nope }}", "{{ 1|nope }}",
    "{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}", "{{ 1, 2 }}{{ (1) }}{{ (1,) }}{{ () }}", "{{ 0x1f }}{{ 0b11 }}{{ 0o17 }}{{ 1_000 }}{{ 1_0.5 }}",
    "{{ dict(a=1, b=[2]) }}{{ dict({'x': 1}, y=2) }}{{ dict([[1, 2]]) }}", "{{ [1] + [2] }}{{ (1,) + (2,) }}{{ [1] * 2 }}{{ 'ab' * 2 }}{{ 2 * 'ab' }}{{ 'a' * -1 }}|", "{{ [1] + (2,) }}", "{{ [1, 2] < [1, 3] }}{{ 'a' < 'B' }}{{ 1 < 'a' }}",
    "{{ 1 == 1.0 }}{{ 1 == true }}{{ '1' == 1 }}{{ none == false }}{{ [1] == (1,) }}{{ {'a': 1} == {'a': 1.0} }}", "{{ {1: 'a', 1.0: 'b', true: 'c'} }}", "{{ {[1]: 2} }}", "{{ {}[[1]] }}", "{% set a, b = 1, 2 %}{{ b }}{{ a }}",
    "{% call f() %}{% endcall %}", "{% macro f(x) %}{{ caller('p' ~ x) }}{% endmacro %}{% call(v) f(1) %}{{ v }}{{ a }}{% endcall %}", "{% macro f() %}{{ caller is defined }}{% endmacro %}{{ f() }}", "{{ caller }}|{{ varargs }}",
    "{% macro f() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, *[2, 3], x=4, **{'y': 5}) }}", "{{ namespace(a=1) }}", "{{ m|length }}{{ 'äöü'|length }}{{ missing|length }}{{ d|count }}", "{{ 3|length }}", "{{ l|map('upper')|length }}",
    "{{ l|tojson|safe }}{{ '<a>'|e }}{{ 1|string + '1' }}{{ 'x'.upper().lower() }}{{ s.split('\\n')[0]|upper }}", "{% for x in l|map('string') %}{{ loop.last }}{% endfor %}", "{% set g = l|map('string') %}{{ g|list }}{{ g|list }}",
]


def main():
    judge = Judge(sys.argv[1])
    if sys.argv[2] == "shared":
        shared(judge, sys.argv[3])
    elif sys.argv[2] == "features":
        for i, template in enumerate(FEATURES):
            judge.compare(f"feature {i}", template, VARIABLES)
    else:
        for i in range(int(sys.argv[3])):
            snippets = Snippets(f"{sys.argv[4]}/{i}")
            judge.compare(f"random {sys.argv[4]}/{i}", "".join(snippets.statement(2) for _ in range(snippets.r.randrange(1, 5))), VARIABLES, True)
    judge.verdict()


main()
