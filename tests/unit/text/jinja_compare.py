#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares chat templates with Jinja2 itself, set up as transformers sets it up.

    jinja_compare.py TEXT_RENDER shared FOLDER       every template of FOLDER over many conversations
    jinja_compare.py TEXT_RENDER random COUNT SEED   random snippets
    jinja_compare.py TEXT_RENDER features            features.json, whose texts must be Jinja2's

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
        request = {"template": template, "variables": variables, "now": NOW}
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
            good = want["ok"] == have.get("ok") or (may_refuse and "not supported" in have.get("error", ""))
            self.n_same += good
        if not good:
            self.n_wrong += 1
            if self.n_wrong <= 20:
                print(f"--- {name}\n{template[:3000]}\n{json.dumps(variables)[:600]}")
                a, b = (str(x.get("ok", x)) for x in (want, have))
                at = max(0, len(os.path.commonprefix((a, b))) - 60)
                print(f"from character {at}\njinja2: {a[at:at + 400]}\nlutra:  {b[at:at + 400]}")

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
        [user("hi")], [system, user("hi")], [user("a"), bot("b"), user("c")],
            [system, user("  a "), bot(" b\n"), user("c\n")],
        [system], [], [bot("first")], [user("x"), user("y")], [user("ok"), think, user("and?")], [user("ok"), think],
        [user("ok"), given, user("more"), given], [user("w?"), calls, result],
            [system, user("w?"), calls, result, bot("21.5"), user("thanks")],
        [user("w?"), two, result, result, bot("done")], [user("w?"), none, result, bot("done"), user("x")],
        [user("w?"), calls, nested, bot("ok")], [user("w?"), flat, result],
            [user("<tool_response>x</tool_response>"), bot("y")],
        [user("日本語 ÄÖÜ 🦙 \u2028 \\n 'quotes' \"double\"")], [user("{{ 7 * 7 }} {% raw %}")], [user("")],
        [{"role": "ipython", "content": {"a": 1}}], [{"role": "other", "content": "x"}], [{"role": "user"}],
        [user("q"), {"role": "assistant", "content": "hm", "tool_calls": None}, user("z")],
        [user("q"), {"role": "assistant", "content": "hm", "tool_calls": []}, user("z")],
        [user("a")] + [bot("b"), user("c")] * 20,
    ]


def variable_sets(messages):
    for prompt in ({"add_generation_prompt": True}, {"add_generation_prompt": False}, {}):
        for tools in ({"tools": None}, {}, {"tools": [TOOL]},
                      {"tools": [TOOL, TOOL2], "builtin_tools": ["code_interpreter", "f"]}):
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


FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "features.json")
FEATURES = json.load(open(FILE, encoding="utf-8"))
VARIABLES = FEATURES["variables"]


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
        return self.pick(lambda: f"{x()} {self.pick('+', '-', '*', '/', '//', '%')} {y()}", lambda: f"({x()})",
                         lambda: f"-{x()}",
                         lambda: f"{x()}|abs", lambda: f"{x()}|int", lambda: f"{x()}|float",
                         lambda: f"{self.sequence(depth - 1)}|length",
                         lambda: f"({self.pick('l', '[1,5]')}|{self.pick('min', 'max', 'sum', 'first', 'last')})",
                         lambda: f"{x()} if {self.boolean(depth - 1)} else {y()}", lambda: f"{x()} ** 2",
                         lambda: f"{self.string(depth - 1)}.count('l')", lambda: f"{self.string(depth - 1)}.find('o')")

    def string(self, depth):
        if depth <= 0:
            return self.pick("s", "t", "'lit'", '"a\\n\\u00e9\'"', "empty", "d['items']", "w[1]", "'a' 'b'", "s[1:4]",
                             "s[::-1]", "t[-3:]")
        x = lambda: self.string(depth - 1)
        return self.pick(lambda: f"{x()} + {x()}", lambda: f"{x()} ~ {self.any(depth - 1)} ~ {x()}", lambda: f"({x()})",
                         lambda: f"{x()}|{self.pick('trim', 'upper', 'lower', 'title', 'capitalize', 'string', 'reverse')}",
                         lambda: f"({x()}).{self.pick('strip', 'lstrip', 'rstrip', 'upper', 'lower', 'title', 'capitalize')}()",
                         lambda: f"({x()}).{self.pick('strip', 'lstrip', 'rstrip')}('lH ')",
                         lambda: f"{x()}|replace('l', {x()})",
                         lambda: f"({x()}).replace('o', '0')", lambda: f"{self.any(depth - 1)}|tojson",
                         lambda: f"{self.any(depth - 1)}|tojson(indent={self.pick('2', '0', 'none')})",
                         lambda: f"{self.sequence(depth - 1)}|join({self.pick(repr(', '), repr(''), 's')})",
                         lambda: f"{x()} * 2",
                         lambda: f"{self.any(depth - 1)}|string",
                         lambda: f"{x()}|indent({self.pick('2', '4, true', 'blank=true')})",
                         lambda: f"({x()})[{self.slice()}]", lambda: f"{x()}|default('dflt')",
                         lambda: f"({x()}).join(w)")

    def slice(self):
        part = lambda: self.pick("", "", "0", "1", "-1", "2", "-4", "9", "-9")
        return f"{part()}:{part()}" + self.pick("", f":{self.pick('1', '2', '-1', '-2', '')}")

    def sequence(self, depth):
        if depth <= 0:
            return self.pick("l", "w", "e", "[1, 'x', none]", "m", "range(3)|list", "(1, 2)", "d|list",
                             "range(5, 0, -2)|list", "s|list")
        x = lambda: self.sequence(depth - 1)
        return self.pick(lambda: f"[{self.any(depth - 1)}, {self.any(depth - 1)}]", lambda: f"({x()})[{self.slice()}]",
                         lambda: f"{x()}|list",
                         lambda: f"{x()}|reverse|list", lambda: "w|sort", lambda: "l|sort(reverse=true)",
                         lambda: "m|sort(attribute='n')",
                         lambda: "w|map('upper')|list", lambda: "m|map(attribute='role')|list",
                         lambda: "m|map(attribute='o.p', default=0)|list",
                         lambda: f"m|selectattr('role', 'equalto', 'user')|list", lambda: "m|rejectattr('o')|list",
                         lambda: "m|selectattr('o', 'defined')|list",
                         lambda: "l|select('odd')|list", lambda: "l|reject('gt', 1)|list", lambda: "d|items|list",
                         lambda: "d.items()|list",
                         lambda: "d|dictsort",
                         lambda: f"({self.string(depth - 1)}).split({self.pick('', repr('l'), repr(' '), 'none, 1')})",
                         lambda: f"({self.string(depth - 1)}).rsplit('l', 1)", lambda: "w|unique|list",
                         lambda: "l + [4]", lambda: "[0] * 3",
                         lambda: "d.keys()|list", lambda: "d.values()|list", lambda: "l|batch(2)|list",
                         lambda: "s.splitlines()")

    def boolean(self, depth):
        if depth <= 0:
            return self.pick("yes", "no", "a", "n", "empty", "e", "missing", "1 < 2", "a == 3", "'a' in w", "a is odd",
                             "m")
        x = lambda: self.boolean(depth - 1)
        test = self.pick("defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "number",
                         "integer", "float",
                         "boolean", "true", "false", "sameas(none)", "equalto(3)", "in w", "callable", "eq 3",
                         "ne('x')")
        return self.pick(lambda: f"{x()} and {x()}", lambda: f"{x()} or {x()}", lambda: f"not {x()}",
                         lambda: f"({x()})",
                         lambda: f"({self.any(depth - 1)}) is {self.pick('', 'not ')}{test}",
                         lambda: f"missing is {test}",
                         lambda: f"{self.number(depth - 1)} {self.pick('<', '<=', '==', '!=', '>', '>=')} {self.number(depth - 1)}",
                         lambda: f"{self.string(depth - 1)} {self.pick('<', '==', '!=', 'in', 'not in')} {self.string(depth - 1)}",
                         lambda: f"{self.any(depth - 1)} {self.pick('in', 'not in')} {self.sequence(depth - 1)}",
                         lambda: f"{self.any(depth - 1)} == {self.any(depth - 1)}", lambda: "1 < a <= 3",
                         lambda: f"({self.string(depth - 1)}).{self.pick('startswith', 'endswith')}({self.string(0)})")

    def formatted(self):
        """Python's two notations, round, and the filters and methods that lay text out."""
        value = lambda: self.pick("0", "1", "-7", "1234567", "3.14159", "-0.5", "1e20", "2.5", "-0.0", "'abc'", "'ü'",
                                  "true", "none", "[1]", "('a',)", "a", "f", "s", "l", "d", "65", "missing", "99999.5")
        percent = lambda: "%" + self.pick("", "", "#", "0", "-", " ", "+") + self.pick("", "5", "12", "*") + \
            self.pick("", "", ".0", ".2", ".*") + self.pick(*"ddfsseEgGxXocrai%")
        spec = lambda: self.pick("", "*<", "0=", "x^", ">", "é>") + self.pick("", "+", " ") + self.pick("", "#") + \
            self.pick("", "0") + self.pick("", "10", "3") + self.pick("", ",", "_") + self.pick("", ".0", ".3") + \
            self.pick("", *"dfeg%xobcsn")
        number = lambda: self.pick("a", "f", "-7", "2.675", "1e300", "-0.5", "12345", "yes", "5e-324")
        text = lambda: self.pick("s", "t", "'a-b-c'", "'ABC dé fx'", "'-12'", "'1,2'", "''", "'tab\\tx'", "'Iſ²½'")
        return self.pick(
            lambda: f"'[{percent()}|{percent()}]' % ({value()}, {value()})", lambda: f"'[{percent()}]' % {value()}",
            lambda: f"'[{percent()}]'|format({value()})", lambda: f"'%(k)s %(items)r' % d",
            lambda: "'[{%s%s:%s}]'.format(%s)" % (self.pick("", "0"), self.pick("", "", "!r", "!s", "!a"), spec(), value()),
            lambda: f"'{{a[k]}} {{b.n:{{w}}}} {{0}}{{{{x}}}}'.format({value()}, a=d, b=m[0], w={self.pick('3', repr('^5'))})",
            lambda: "'{k}{z[1][y]}'.format_map(d)",
            lambda: f"{number()}|round({self.pick('', '1', '-2', '2', '20')})",
            lambda: f"{number()}|round({self.pick('0', '1', '-1')}, '{self.pick('ceil', 'floor', 'common')}')",
            lambda: f"{number()}|filesizeformat({self.pick('', 'true')})",
            lambda: f"{text()}|{self.pick('wordcount', 'urlencode', 'center(9)', 'center(8)', 'forceescape')}",
            lambda: f"{self.wrapped()}|wordwrap({self.pick('1', '3', '5, false', '7', '9, true, ' + repr('|'), '12', '8, break_on_hyphens=false', '5, false, none, false')})",
            lambda: f"({self.tags()})|striptags",
            lambda: f"({self.addresses()})|urlize({self.pick('', '', '9', '-4, true', 'rel=' + repr('me noopener a'), 'none, false, ' + repr('_x<'), 'extra_schemes=[' + repr('tel:') + ', ' + repr('ftp://') + ']')})",
            lambda: f"{self.nested(3)}|pprint", lambda: f"({self.any(1)})|pprint",
            lambda: f"{{{{'a': {value()}, 'b': none, 'c<': {text()}, {self.pick(repr('x y'), repr('k'), repr('a/'))}: missing, 'd': 1}}|xmlattr({self.pick('', 'false')})".replace("{{", "{"),
            lambda: f"{self.pick('[5]', 'range(0)', repr('q'), '(1,)', '[2, 2, 2]', '5')}|random",
            lambda: f"{text()}|truncate({self.pick('5', '3, true', '9, false, ' + repr('…'), '5, leeway=0', '2')})",
            lambda: f"{text()}.{self.pick('partition', 'rpartition', 'split', 'index', 'rindex')}('{self.pick('-', 'b', ',', '')}')",
            lambda: f"{text()}.{self.pick('find', 'rfind', 'count', 'startswith', 'endswith')}('{self.pick('-', 'b', '')}', {self.pick('0', '1', '-2', '9', 'none')}{self.pick('', ', 3', ', -1', ', none')})",
            lambda: f"{text()}.{self.pick('zfill', 'center', 'ljust', 'rjust')}({self.pick('0', '4', '7', '-3')})",
            lambda: f"{text()}.{self.pick('center', 'ljust', 'rjust')}(8, '{self.pick('*', 'é', 'xy')}')",
            lambda: f"{text()}.{self.pick('swapcase', 'casefold', 'expandtabs', 'isalpha', 'isalnum', 'isdecimal', 'isdigit', 'isspace', 'isascii', 'islower', 'isupper', 'istitle')}()",
            lambda: f"{text()}.splitlines(true)", lambda: f"l.index({self.pick('1', '2', '9')}{self.pick('', ', 1', ', -1', ', 0, 2')})",
            lambda: f"{self.pick('l', 'w', 's', 'e')}|slice({self.pick('1', '2', '5')}{self.pick('', ', 7')})|list",
            lambda: f"m|groupby('{self.pick('role', 'n', 'o')}'{self.pick('', ', default=none', ', case_sensitive=true')})",
            lambda: "w|groupby(0)|map(attribute='grouper')|join", lambda: "m|groupby('role')|map(attribute='list')|map('length')|list",
            lambda: "m|sort(attribute='role,n')|map(attribute='n')|list", lambda: f"{value()} is escaped")

    def wrapped(self):
        return repr("".join(self.pick("ab", "a", "long-word", "x-y", "e-mail", "--", "---", "-", " ", "  ", "            ", "\n",
                                      "\t", "é", "unbreakable", "1-2", "ab-12", "it's", "end.", "a-b-c", "\r\n", "!--")
                            for _ in range(self.r.randrange(9)))).replace("\\\\", "\\")

    def addresses(self):
        """Words with addresses, none of which begins with "@": there Jinja2 3.1.2 differs from later ones."""
        host = lambda: self.pick("a.com", "www.x-y.org", "localhost", "b.c.info", "x.museum", "xn--p1ai", "a.xn--p1ai", "1.2.3.4", "1.2.3.4444",
                                 "[::1]", "[1:2:3:4:5:6:7:8]", "[1:2]", "[a:b:c:d:e:f:12345678]", "é.com", "a_b.net", "w.ſ", "WWW.Q.DE", "a..com", "-a.com",
                                 "x.co", "ab.gov", "a%20.mil")
        word = lambda: self.pick("", "(", "((", "<", "&") + self.pick("http://", "https://", "HTTP://", "www.", "", "", "mailto:", "tel:", "ftp://", "m@", "x.y+z@") + \
            host() + self.pick("", "", ":80", ":", ":123456", ":8/") + self.pick("", "", "/p(q)", "/a)", "?x=1&y=<2>", "#é", "/a.b,", "&") + \
            self.pick("", "", ")", ").", ">", ">,", "!", "&gt;", "..")
        return repr(self.pick(" ", "\n", "  ", "\u00a0").join(self.pick(word, word, "word", "a@b", "x@y.z", "(a@b.c).", "tel:", "tel:5", "mailto:q@r.st", "http://")
                                                            for _ in range(self.r.randrange(1, 6))))

    def nested(self, depth):
        """Values that pprint writes over several lines."""
        words = lambda: repr("".join(self.pick("ab", "cde ", "it's ", '"q" ', "longer-word-without-space ", "\n", "é", "  ", "\\", "x" * 30, "\t", "\u200b")
                                     for _ in range(self.r.randrange(14)))).replace("\\\\", "\\")
        if depth == 0:
            return self.pick(words, words, "1", "-2.5", "none", "true", "s", "l", "12345678901", "range(3)", "d", "()", "[]", "{}")
        x, n = lambda: self.nested(depth - 1), self.r.randrange(6)
        key = lambda: self.pick("'k'", "'a'", "3", "1.5", "none", "true", "'long key of a mapping'", "(1, 2)", "'B'", "-1")
        return self.pick(lambda: "[" + ", ".join(x() for _ in range(n)) + "]", lambda: "(" + "".join(x() + ", " for _ in range(n)) + ")" if n else "()",
                         lambda: "{" + ", ".join(f"{key()}: {x()}" for _ in range(n)) + "}", x, "m", "d", "{'deep': m, 'list': w}")

    def tags(self):
        """Text with tags and comments, but no "<!-->": MarkupSafe 2 opens a comment there, 3 also closes it."""
        return repr("".join(self.pick("a", "<b>", "</b>", "<!-- x -->", "<!--", "-->", "<", ">", " ", "\n\t", "&amp;", "&lt;i>",
                                      "&#65;", "&#x20AC;", "é", "<a href='>'>", "&quot;", "& ", "\u00a0")
                            for _ in range(self.r.randrange(9))).replace("<!-->", "<!-- >"))

    def any(self, depth):
        if self.r.random() < 0.15:
            return self.formatted()
        return self.pick(lambda: self.number(depth), lambda: self.string(depth), lambda: self.sequence(depth),
                         lambda: self.boolean(depth),
                         "d", "d.z", "n", "{'q': 1, 2: [3.0]}", "m[0].o", "dict(x=1)", "missing", "d.missing",
                         "m[-1]['role']", "d.get('k', 0)")

    def tag(self, text):
        return "{%" + self.pick("", "", "-", "+") + f" {text} " + self.pick("", "", "-", "+") + "%}"

    def text(self):
        return "".join(self.r.choice(["x", " ", "\n", "  ", "\n\n", "\t", "ö", "\r\n", "}", "{ ", "#", "%"])
                       for _ in range(self.r.randrange(5)))

    def put(self, depth):
        return "{{" + self.pick("", "", "-") + f" {self.any(depth)} " + self.pick("", "", "-") + "}}"

    def body(self, depth):
        return "".join(self.statement(depth - 1)
                       for _ in range(self.r.randrange(1, 4))) if depth > 0 else self.text() + self.put(1)

    def statement(self, depth):
        body, t = lambda: self.body(depth), self.tag
        return self.text() + self.pick(
            lambda: self.put(2), lambda: self.put(2), lambda: self.put(3),
            lambda: "{#" + self.pick("", "-", "+") + " note\n " + self.pick("", "-", "+") + "#}",
            lambda: t(f"if {self.boolean(2)}") + body() + self.pick("", lambda: t(f"elif {self.boolean(1)}") + body()) + self.pick("", lambda: t("else") + body()) + t("endif"),
            lambda: t(f"for v in {self.sequence(2)}{self.pick('', '', ' if v')}") + "{{ loop.index }}{{ v }}" + self.text() + self.pick("", "{{ loop.last }}{{ loop.length }}{{ loop.revindex0 }}", "{% if loop.index > 1 %}{% break %}{% endif %}", "{% if loop.first %}{% continue %}{% endif %}", "{{ loop.previtem }}{{ loop.nextitem is defined }}", "{{ loop.cycle('p', 'q') }}{{ loop.changed(v) }}") + body() + self.pick("", lambda: t("else") + "none") + t("endfor"),
            lambda: t("for k, v in d.items()") + "{{ k }}={{ v }}" + t("endfor"),
            lambda: t(f"set x = {self.any(2)}") + "{{ x }}",
                                       lambda: t(f"set x{self.pick('', ' | upper', ' | trim | title')}") + body() + t("endset") + "[{{ x }}]",
            lambda: t("set ns = namespace(c=0, s='')") + "{% for i in l %}{% set ns.c = ns.c + i %}{% set ns.s = ns.s ~ i %}{% set lost = i %}{% endfor %}{{ ns.c }}{{ ns.s }}{{ lost is defined }}",
            lambda: t("macro g(p, q=2)") + "<{{ p }}|{{ q }}|{{ varargs }}{{ kwargs }}>" + body() + t("endmacro") + "{{ g(1) }}{{ g(p=2, q=a) }}{{ g(1, 2, 3) }}{{ g(1, z=l) }}{{ g() }}",
            lambda: t("macro h(p)") + "({{ caller(p) }})" + t("endmacro") + "{% call(u) h(s) %}" + "{{ u }}" + body() + "{% endcall %}",
            lambda: t("for v in [1, [2, [3, []], 4], 5] recursive") + "{{ loop.depth }}{{ loop.depth0 }}{{ loop(v) if v is iterable else v }}" + self.text() + self.pick("", "{% if loop.index > 1 %}{% break %}{% endif %}") + t("else") + "none{{ loop is defined }}" + t("endfor"),
            lambda: t("set c = cycler('x', l)") + "{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}{% set _ = c.reset() %}{{ c.current }}",
            lambda: t("set j = joiner('|')") + "{% for v in w %}{{ j() }}{{ v }}{% endfor %}{{ j is callable }}",
            lambda: t("filter upper") + body() + t("endfilter"),
                                       lambda: t(f"with y = {self.any(1)}, z = 1") + "{{ y }}{{ z }}" + t("endwith") + "{{ z is defined }}",
            lambda: t("raw") + "{{ x }} {% if %}" + self.text() + t("endraw").replace("+%}", "%}"),
                                       lambda: t("set p, q = l[0], w") + "{{ p }}{{ q }}")


def main():
    judge = Judge(sys.argv[1])
    if sys.argv[2] == "shared":
        shared(judge, sys.argv[3])
    elif sys.argv[2] == "features":
        for i, case in enumerate(FEATURES["cases"]):
            want = judge.jinja(case["template"], VARIABLES)
            if want.get("ok") != case.get("text"):
                print(f"features.json, case {i}: Jinja2 says {want}")
                judge.n_wrong += 1
            judge.compare(f"feature {i}", case["template"], VARIABLES)
    else:
        for i in range(int(sys.argv[3])):
            snippets = Snippets(f"{sys.argv[4]}/{i}")
            judge.compare(f"random {sys.argv[4]}/{i}",
                          "".join(snippets.statement(2) for _ in range(snippets.r.randrange(1, 5))), VARIABLES, True)
    judge.verdict()


main()
