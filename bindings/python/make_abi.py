#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes lutra/_abi.py from the public headers: every enum, struct and function of them for ctypes.

usage: make_abi.py INCLUDE OUT.py [--check OUT.c]

Needs a C preprocessor (CC, or cc) and the parser pycparser; who installs the package needs neither.  --check writes a
C file that compiles only where the headers give each field the place that ctypes gives it.
"""
import importlib.util
import os
import subprocess
import sys
import tempfile
from ctypes import sizeof
from pathlib import Path

from pycparser import c_ast, c_parser

# The headers of the system as far as the public headers need them: names that the parser is to know as types.
STUBS = {"stdbool.h": "typedef _Bool bool;", "stddef.h": "typedef unsigned long size_t;\n#define NULL 0",
         "stdint.h": "".join(f"typedef int {t}_t;" for t in (
             "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "intptr", "uintptr"))}
SCALARS = {"bool": "c_bool", "_Bool": "c_bool", "char": "c_char", "int": "c_int", "unsigned int": "c_uint",
           "unsigned": "c_uint", "float": "c_float", "double": "c_double", "size_t": "c_size_t",
           "int8_t": "c_int8", "int16_t": "c_int16", "int32_t": "c_int32", "int64_t": "c_int64", "uint8_t": "c_uint8",
           "uint16_t": "c_uint16", "uint32_t": "c_uint32", "uint64_t": "c_uint64"}


def parse(include):
    with tempfile.TemporaryDirectory() as tmp:
        for name, text in STUBS.items():
            Path(tmp, name).write_text(text)
        headers = sorted(p.relative_to(include).as_posix() for p in (include / "lutra").glob("*.h"))
        Path(tmp, "all.c").write_text("".join(f'#include "{h}"\n' for h in headers))
        text = subprocess.run([os.environ.get("CC", "cc"), "-E", "-P", "-nostdinc", "-D__attribute__(x)=", f"-I{tmp}",
                               f"-I{include}", f"{tmp}/all.c"], check=True, capture_output=True, text=True).stdout
    return c_parser.CParser().parse(text)


class Abi:
    """Declarations in the order of the headers."""

    def __init__(self):
        self.constants, self.structs, self.aliases, self.functions = {}, {}, {}, {}

    def read(self, tree):
        for node in tree.ext:
            if isinstance(node, c_ast.Typedef):
                self.declared(node.type)
                if isinstance(node.type, c_ast.PtrDecl):
                    self.aliases[node.name] = node.type
            elif isinstance(node, c_ast.Decl):
                if isinstance(node.type, c_ast.FuncDecl):
                    self.functions[node.name] = node.type
                else:
                    self.declared(node.type)
        return self

    def declared(self, node):
        if isinstance(node, c_ast.TypeDecl):
            node = node.type
        if isinstance(node, c_ast.Enum) and node.values:
            after = 0
            for item in node.values.enumerators:
                self.constants[item.name] = self.number(item.value) if item.value else after
                after = self.constants[item.name] + 1
        elif isinstance(node, c_ast.Struct) and node.decls:
            self.structs[node.name] = node.decls

    def number(self, node):
        if isinstance(node, c_ast.UnaryOp):
            return -self.number(node.expr)
        if isinstance(node, c_ast.BinaryOp) and node.op == "<<":
            return self.number(node.left) << self.number(node.right)
        return int(node.value, 0) if isinstance(node, c_ast.Constant) else self.constants[node.name]

    def type(self, node):
        """A type as an expression of ctypes."""
        if isinstance(node, c_ast.ArrayDecl):
            return f"{self.type(node.type)} * {self.number(node.dim)}"
        if isinstance(node, c_ast.FuncDecl):
            args = [self.type(a.type) for a in node.args.params] if node.args else []
            args = [a for a in args if a != "None"]
            return f"CFUNCTYPE({', '.join([self.type(node.type), *args])})"
        if isinstance(node, c_ast.PtrDecl):
            return self.pointer(node.type)
        kind = node.type
        if isinstance(kind, c_ast.Enum):
            return "c_int"
        if isinstance(kind, c_ast.Struct):
            return kind.name
        name = " ".join(kind.names)
        if name in self.aliases:
            return self.type(self.aliases[name])
        return "None" if name == "void" else SCALARS[name]

    def pointer(self, node):
        if isinstance(node, c_ast.FuncDecl):
            return self.type(node)
        if isinstance(node, c_ast.TypeDecl):
            kind = node.type
            if isinstance(kind, c_ast.IdentifierType):
                name = " ".join(kind.names)
                if name == "char" and "const" in node.quals:
                    return "c_char_p"
                if name == "char" or name not in SCALARS and name not in self.aliases:
                    return "c_void_p"  # void, handles, and texts that somebody frees or fills
            if isinstance(kind, c_ast.Struct) and kind.name not in self.structs:
                return "c_void_p"
        return f"POINTER({self.type(node)})"

    def python(self):
        out = ['"""Made by make_abi.py from the headers of Lutra: not to be edited."""\n', "from ctypes import *\n\n"]
        out += [f"{name} = {value}\n" for name, value in self.constants.items()]
        out += [f"\n\nclass {name}(Structure):\n    pass\n" for name in self.structs]
        for name, fields in self.structs.items():
            rows = "".join(f'    ("{f.name}", {self.type(f.type)}),\n' for f in fields)
            out.append(f"\n{name}._fields_ = [\n{rows}]\n")
        out.append("\nFUNCTIONS = {\n")
        for name, node in self.functions.items():
            args = [a for a in (self.type(p.type) for p in node.args.params) if a != "None"] if node.args else []
            out.append(f'    "{name}": ({self.type(node.type)}, [{", ".join(args)}]),\n')
        return "".join(out) + "}\n"


def check(abi, made):
    spec = importlib.util.spec_from_file_location("abi", made)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    lines = ['#include <stddef.h>\n#include "lutra.h"\n']
    for name, fields in abi.structs.items():
        made_struct = getattr(module, name)
        lines.append(f'_Static_assert(sizeof(struct {name}) == {sizeof(made_struct)}, "{name}");\n')
        for field in fields:
            place = getattr(made_struct, field.name)
            lines.append(f'_Static_assert(offsetof(struct {name}, {field.name}) == {place.offset}, "{field.name}");\n')
            lines.append(f'_Static_assert(sizeof(((struct {name} *)0)->{field.name}) == {place.size}, "{field.name}");\n')
    lines += [f'_Static_assert({name} == {value}, "{name}");\n' for name, value in abi.constants.items()]
    return "".join(lines)


def main(args):
    if len(args) not in (2, 4) or len(args) == 4 and args[2] != "--check":
        sys.exit(__doc__)
    abi = Abi().read(parse(Path(args[0]).resolve()))
    Path(args[1]).write_text(abi.python())
    if len(args) == 4:
        Path(args[3]).write_text(check(abi, args[1]))


if __name__ == "__main__":
    main(sys.argv[1:])
